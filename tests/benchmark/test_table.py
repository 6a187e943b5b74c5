import pytest

from luong.benchmark import additive, local
from luong.benchmark.problem import Measurement, Row
from luong.benchmark.table import Table, digits, milliseconds, times
from luong.benchmark.tables import additive_tables, local_table
from luong.benchmark.timing import Timing


def steady(seconds):
    return Timing(seconds, seconds, seconds, 7)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"),
        (0.0, "0"),
        (0.012345, "0.0123"),
        (9.999, "10"),
        (99.96, "100"),
        (54321.0, "54321"),
    ],
)
def test_three_figures(number, text):
    assert digits(number) == text


def test_milliseconds_and_ratios():
    assert milliseconds(Timing(0.012, 0.011, 0.0145, 7)) == "12 [11-14.5]"
    assert milliseconds(Timing(6.5, 6.5, 6.5, 1)) == "6500 (once)"
    assert milliseconds(None) == "-"
    assert times(steady(3.0), steady(0.5)) == "6"
    assert times(None, steady(1.0)) == times(steady(1.0), None) == "-"


def test_a_table_is_markdown_with_aligned_columns():
    text = Table("Title", "Note.", ["a", "bb"], [["long", "1"], ["x", "234"]]).text()
    assert text == "## Title\n\nNote.\n\n|a   | bb|\n|:---|--:|\n|long|  1|\n|x   |234|\n"


def test_additive_tables_say_ratios_rates_memory_and_failures():
    found = {
        additive.LUONG: Measurement(steady(0.010), 2e-7),
        additive.LINEAR: Measurement(steady(0.400), 3e-6),
        additive.COMPILED_SUM: Measurement(steady(0.150), 1e-7),
        additive.COMPILED_LINEAR: Measurement(failure="no compiler"),
    }
    peaks = {additive.LUONG: 7.0, additive.LINEAR: 640.0}
    row = Row("additive", "1,2,3,4", "forward", 50_000_000, found, peaks)
    ratios, rates, every = additive_tables([row], 40e9)
    assert ratios.rows[0][3:] == ["40", "-", "-", "15", "-"]
    # 5 G terms of 2 multiply-adds against 40 G.
    assert rates.rows[0][2:] == ["5", "25 %", "7", "640", "-", "-", "2e-07", "3e-06"]
    assert every.rows[3][2:] == [additive.COMPILED_LINEAR, "no compiler", "-", "-"]


def test_the_local_table_goes_by_query():
    def row(length, seconds):
        found = {
            local.MONOTONIC: Measurement(steady(seconds), 1e-7),
            local.RANDOM: Measurement(steady(2 * seconds), 2e-3),
        }
        return Row("local", f"dot {length}", "forward", length, found, {local.MONOTONIC: 5.0})

    table = local_table([row(1000, 0.002), row(10_000, 0.030)])
    assert table.rows[0][3:] == ["2 [2-2]", "1", "4 [4-4]", "1", "5", "2e-03 WRONG"]
    assert table.rows[1][3:] == ["3 [3-3]", "1.5", "6 [6-6]", "1.5", "5", "2e-03 WRONG"]
