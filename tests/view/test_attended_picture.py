import numpy as np
import pytest
import torch

from luong.view.attended_picture import attended_picture, enlarged, overlay

WARM = np.array([226, 74, 16])


def glow(picture, weights, strongest=1.0):
    """How orange each pixel is: red minus blue, over what the full colour would have."""
    drawn = overlay(picture, np.array(weights, np.float32), strongest).astype(int)
    return (drawn[..., 0] - drawn[..., 2]) / (WARM[0] - WARM[2])


@pytest.mark.parametrize(("row", "column"), [(0, 0), (1, 2), (3, 3)])
def test_a_cell_lights_its_own_region(row, column):
    picture = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
    weights = np.zeros((4, 4))
    weights[row, column] = 1
    light = glow(picture, weights)
    side = len(light) // 4
    cells = light.reshape(4, side, 4, side).mean((1, 3))
    assert np.unravel_index(cells.argmax(), cells.shape) == (row, column)
    middle = light[row * side + side // 2, column * side + side // 2]
    assert middle == pytest.approx(0.82, abs=0.05)
    far = np.abs(np.indices((4, 4)) - np.array([row, column])[:, None, None]).max(0) > 1
    assert cells[far].max() < 0.02


def test_a_picture_that_is_not_square():
    light = glow(np.zeros((20, 40, 3), np.uint8), [[0, 1]])
    assert light.shape == (140, 280)
    assert light[:, 200:].min() > 0.5
    assert light[:, :80].max() < 0.05


def test_colours_say_the_share_of_the_strongest():
    white = np.full((8, 8, 3), 255, np.uint8)
    assert glow(white, [[0.2]], 0.4)[100, 100] == pytest.approx(0.41, abs=0.01)
    assert glow(white, [[0.0]], 0.0).max() == 0


def test_small_pictures_keep_their_pixels():
    picture = np.random.default_rng(1).integers(0, 256, (32, 32, 3), np.uint8)
    large = enlarged(picture)
    assert large.shape == (256, 256, 3)
    assert np.array_equal(large[::8, ::8], picture)
    assert np.array_equal(large[7::8, 7::8], picture)
    assert enlarged(np.zeros((300, 200, 3), np.uint8)).shape == (300, 200, 3)


def test_a_panel_for_the_picture_and_one_for_each_word(tmp_path):
    picture = np.zeros((32, 32, 3), np.uint8)
    words = ["flag", "$", ":", "x" * 40, "a", "b", "c", "שלום"]
    weights = torch.zeros(8, 4, 4)
    weights[:, 1, 2] = 0.9
    figure = attended_picture(picture, words, weights, title="flag: $", path=tmp_path / "words.png")
    labels = [axes.get_xlabel() for axes in figure.axes]
    assert len(labels) == 9
    assert labels[0] == ""
    assert labels[1:3] == ["flag  0.90", "$  0.90"]
    assert labels[4].startswith("x" * 23 + "…")
    assert (tmp_path / "words.png").stat().st_size > 1000
    # Two rows: the seventh panel begins a new one.
    heights = [axes.get_position().y0 for axes in figure.axes]
    assert heights[0] == heights[5] > heights[6] == heights[8]


def test_no_words():
    assert len(attended_picture(np.zeros((8, 8, 3), np.uint8), [], torch.zeros(0, 2, 2)).axes) == 1


def test_weights_of_another_shape():
    with pytest.raises(ValueError, match=r"2 words need \(2, rows, columns\)"):
        attended_picture(np.zeros((8, 8, 3), np.uint8), ["a", "b"], torch.zeros(1, 2, 2))
