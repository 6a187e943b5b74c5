import math

import numpy as np
import pytest

from luong.view import learning_curves
from luong.view.curves import PANELS, panel_figure

ROWS = [
    {
        "kind": "train",
        "step": 100 * i,
        "epoch": 1,
        "seconds": 2.0 * i,
        "loss": 5.0 / i,
        "learning_rate": 0.001,
        "source_tokens_per_second": 20000.0,
        "target_tokens_per_second": 21000.0,
    }
    for i in range(1, 6)
] + [{"kind": "validation", "step": 500, "epoch": 1, "loss": 2.0, "bleu": 10.0, "chrf": 30.0}]


def lines(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def test_each_panel_draws_its_values_over_updates():
    loss, scores, rate, speed = learning_curves(ROWS).axes
    np.testing.assert_allclose(lines(loss)["training"].get_xdata(), [100, 200, 300, 400, 500])
    np.testing.assert_allclose(lines(loss)["training"].get_ydata(), [5, 2.5, 5 / 3, 1.25, 1])
    np.testing.assert_allclose(lines(loss)["validation"].get_xydata(), [[500, 2]])
    np.testing.assert_allclose(lines(scores)["BLEU"].get_xydata(), [[500, 10]])
    np.testing.assert_allclose(lines(scores)["chrF"].get_xydata(), [[500, 30]])
    np.testing.assert_allclose(lines(rate)["learning rate"].get_ydata(), [0.001] * 5)
    assert set(lines(speed)) == {"source", "target"}
    # One point makes no line, so it must be seen as a point.
    assert lines(scores)["BLEU"].get_marker() == "o"


@pytest.mark.parametrize(
    "rows",
    [
        [],
        ROWS[:1],
        ROWS[-1:],
        [{"kind": "train", "step": 1}],
        [{"kind": "train", "step": 1, "loss": None}],
        [{"kind": "train", "step": 1, "loss": math.nan}],
        [{"kind": "sample", "step": 1, "loss": 3.0}],
    ],
)
def test_few_rows_or_none_can_be_drawn(rows):
    figure = learning_curves(rows)
    figure.set_layout_engine("none")  # it draws each panel several times
    figure.draw_without_rendering()
    assert len(figure.axes) == 4


def test_curves_are_written(tmp_path):
    learning_curves(ROWS, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_panels_without_data_say_so():
    axes = learning_curves(ROWS[:1]).axes
    assert [bool(panel.get_lines()) for panel in axes] == [True, False, True, True]
    assert axes[1].texts[0].get_text() == "no data yet"


def test_long_runs_are_thinned_and_keep_their_last_point():
    rows = [{"kind": "train", "step": step, "loss": 1.0} for step in range(1, 25_001)]
    steps = lines(learning_curves(rows).axes[0])["training"].get_xdata()
    assert 500 < len(steps) <= 1000
    assert steps[-1] == 25_000
    assert (np.diff(steps) == steps[1] - steps[0]).all()


def test_a_diverged_loss_is_drawn_up_to_there():
    rows = [
        {"kind": "train", "step": step, "loss": loss}
        for step, loss in enumerate([3.0, 2.0, math.inf, math.nan])
    ]
    figure = learning_curves(rows)
    figure.set_layout_engine("none")
    figure.draw_without_rendering()
    assert figure.axes[0].get_ylim()[1] < 4


def test_a_panel_alone_is_the_panel_of_the_whole():
    for index, title in enumerate(PANELS):
        whole = learning_curves(ROWS).axes[index]
        alone = panel_figure(title, ROWS).axes[0]
        assert alone.get_title(loc="left") == whole.get_title(loc="left") == title
        assert [line.get_xydata().tolist() for line in alone.get_lines()] == [
            line.get_xydata().tolist() for line in whole.get_lines()
        ]
