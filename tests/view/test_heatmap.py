import itertools
import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from matplotlib import _pylab_helpers
from matplotlib.backends.backend_agg import FigureCanvasAgg

from luong.errors import UserError
from luong.view import heatmap


def weights(rows, columns):
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    return torch.softmax(torch.randn(rows, columns, generator=generator) * 3, dim=1)


def boxes(figure, labels):
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    return [label.get_window_extent(renderer) for label in labels if label.get_text()]


def overlap(first, second):
    width = min(first.x1, second.x1) - max(first.x0, second.x0)
    height = min(first.y1, second.y1) - max(first.y0, second.y0)
    return width > 1 and height > 1


def test_rows_are_targets_from_top_and_columns_are_sources_on_top():
    matrix = weights(3, 2)
    axes = heatmap(matrix, ["guten", "Tag"], ["good", "day", "</s>"], title="a $1 b $2").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["guten", "Tag"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["good", "day", "</s>"]
    assert axes.get_title() == "a $1 b $2"
    assert axes.yaxis_inverted()
    assert axes.xaxis.get_ticks_position() == "top"
    np.testing.assert_array_equal(axes.images[0].get_array(), matrix.numpy())


def test_white_is_zero_and_darkness_grows_to_one():
    image = heatmap([[0.0, 0.5, 1.0]], list("abc"), ["x"]).axes[0].images[0]
    colours = image.to_rgba(np.array([0.0, 0.25, 0.5, 0.75, 1.0]))
    assert colours[0].tolist() == [1, 1, 1, 1]
    assert (np.diff(colours[:, :3].sum(axis=1)) < -0.2).all()
    # Weights that are all small stay pale: pictures can be compared.
    assert heatmap([[0.1, 0.1]], list("ab"), ["x"]).axes[0].images[0].get_clim() == (0, 1)
    assert heatmap([[0.1, 4.0]], list("ab"), ["x"]).axes[0].images[0].get_clim() == (0, 4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tensors_of_any_type_with_gradients(dtype):
    matrix = weights(2, 3).to(dtype).requires_grad_()
    image = heatmap(matrix, list("abc"), list("xy")).axes[0].images[0]
    np.testing.assert_allclose(image.get_array(), matrix.detach().float().numpy())


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 60), (60, 1), (60, 60), (1, 300)])
def test_labels_do_not_overlap_cells_are_square_and_size_is_bounded(rows, columns):
    figure = heatmap(
        weights(rows, columns),
        [f"Quelle{i}" for i in range(columns)],
        [f"target{i}" for i in range(rows)],
    )
    axes = figure.axes[0]
    width, height = figure.get_size_inches()
    assert width < 20
    assert height < 20
    grid = axes.get_window_extent()
    assert grid.width / columns == pytest.approx(grid.height / rows, rel=1e-3)
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        drawn = boxes(figure, labels)
        assert not any(itertools.starmap(overlap, itertools.pairwise(drawn)))


@pytest.mark.parametrize("word", ["Donaudampfschifffahrtsgesellschaft", "W" * 60, "ab", "長い" * 9])
def test_long_tokens_stay_inside_the_figure_and_apart(word):
    figure = heatmap(weights(3, 4), [word] * 4, [word] * 3)
    axes = figure.axes[0]
    drawn = boxes(figure, axes.get_xticklabels() + axes.get_yticklabels())
    assert not any(itertools.starmap(overlap, itertools.combinations(drawn, 2)))
    if "W" not in word:
        inside = figure.bbox.padded(2)
        assert all(inside.x0 <= box.x0 and box.y1 <= inside.y1 for box in drawn)


def test_figures_grow_with_tokens():
    small = heatmap(weights(3, 3), list("abc"), list("abc")).get_size_inches()
    large = heatmap(weights(12, 12), list("abcdefghijkl"), list("abcdefghijkl")).get_size_inches()
    assert (large > small * 1.5).all()


def test_tokens_of_all_sorts_are_drawn_without_warnings(tmp_path, caplog):
    tokens = ["$x$", "a_b^c", "\\frac{", "%", " ", "", "\u200d", "▁the", "שלום", "سلام", "日本"]
    tokens += ["कुछ", "😀🚀❤️", "ไทย", "e\u0301", "\ud83d", "a\tb", "</s>", "\U000e0041"]
    path = tmp_path / "heatmap.png"
    with caplog.at_level(logging.WARNING, logger="matplotlib"):
        heatmap(weights(len(tokens), len(tokens)), tokens, tokens, title="日本 $\\frac", path=path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert not [record for record in caplog.records if record.name.startswith("matplotlib")]


@pytest.mark.parametrize(
    ("suffix", "start"), [("svg", b"<?xml"), ("PDF", b"%PDF"), ("png", b"\x89P")]
)
def test_the_name_chooses_the_format(tmp_path, suffix, start):
    path = tmp_path / f"picture.{suffix}"
    heatmap([[1.0]], ["a"], ["b"], path=str(path))
    assert path.read_bytes().startswith(start)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["picture", "picture.pnk"])
def test_an_unknown_format_is_refused(tmp_path, name):
    with pytest.raises(UserError, match=rf"{name}.*\.png"):
        heatmap([[1.0]], ["a"], ["b"], path=tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (6,), (1, 2, 3)])
def test_shapes_that_do_not_match_are_named(shape):
    with pytest.raises(ValueError, match=r"2 target tokens and 3 source tokens"):
        heatmap(torch.ones(shape), ["a", "b", "c"], ["x", "y"])


def test_nothing_to_draw():
    with pytest.raises(ValueError, match=r"\(0, 2\)"):
        heatmap(torch.ones(0, 2), ["a", "b"], [])


def test_no_figure_is_kept_and_threads_may_draw(tmp_path):
    def draw(index):
        path = tmp_path / f"{index}.png"
        heatmap(weights(2, 2), list("ab"), list("yz"), path=path)
        return path.read_bytes()

    with ThreadPoolExecutor(2) as pool:
        pictures = set(pool.map(draw, range(4)))
    assert len(pictures) == 1
    assert not _pylab_helpers.Gcf.figs
