import json
import re
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from luong.text.dataset import DatasetSummary
from luong.training.report import Report, data_report, perplexity, read_metrics

ROW = {
    "step": 50,
    "epoch": 2,
    "seconds": 12.5,
    "loss": 3.25,
    "perplexity": 20.125,
    "learning_rate": 0.001,
    "gradient_norm": 1.5,
    "source_tokens_per_second": 1234.0,
    "target_tokens_per_second": 2345.0,
    "wait_share": 0.01,
}
SCORES = {"step": 50, "epoch": 2, "seconds": 13.0, "loss": 3.0, "perplexity": 20.1, "bleu": 12.34}
SAMPLE = (SimpleNamespace(source="ein [bold]Hund[/bold]", text="a :smile: dog"), "one dog")


def terminal(is_terminal):
    return Console(file=StringIO(), width=150, force_terminal=is_terminal, color_system=None)


def write(folder, console):
    with Report(folder, console) as report:
        report.training(ROW, seconds_left=83)
        report.advance(0.25, 2)
        report.validation({**SCORES, "chrf": 23.45}, True, [SAMPLE])
        report.validation({**SCORES, "step": 60, "chrf": 23.0}, False, [])
        return report.sync()


def test_plain_lines_where_there_is_no_terminal(tmp_path):
    console = terminal(False)
    write(tmp_path, console)
    text = console.file.getvalue()
    assert "\x1b" not in text
    assert text.splitlines() == [
        "step 50  epoch 2  loss 3.250  perplexity 20.12  rate 1.00e-03  norm 1.50  "
        "tokens/s 1,234 > 2,345  left 1:23",
        "   step  epoch    loss  perplexity   BLEU   chrF",
        "     50      2   3.000        20.1   12.3   23.4  best so far",
        # Brackets and colons of a text are not marks of the terminal.
        "    source     ein [bold]Hund[/bold]",
        "    reference  one dog",
        "    output     a :smile: dog",
        "     60      2   3.000        20.1   12.3   23.0",
    ]


def test_a_bar_on_a_terminal(tmp_path):
    console = terminal(True)
    write(tmp_path, console)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    assert "step 50" not in text  # the bar shows it
    assert re.search(r"epoch 2 .* 25 % 0:00:0\d left .* loss 3\.250 .* norm 1\.50", text)
    assert "     50      2   3.000        20.1   12.3   23.4  best so far" in text
    assert "    source     ein [bold]Hund[/bold]" in text


@pytest.mark.parametrize("is_terminal", [True, False])
def test_every_row_is_an_object_either_way(tmp_path, is_terminal):
    length = write(tmp_path, terminal(is_terminal))
    assert length == (tmp_path / "metrics.jsonl").stat().st_size
    assert read_metrics(tmp_path) == [
        {"kind": "train", **ROW},
        {"kind": "validation", **SCORES, "chrf": 23.45},
        {"kind": "validation", **SCORES, "step": 60, "chrf": 23.0},
    ]


def test_rows_are_there_for_others_to_read_at_once(tmp_path):
    with Report(tmp_path, terminal(False)) as report:
        report.training(ROW, 0)
        assert read_metrics(tmp_path) == [{"kind": "train", **ROW}]


def test_rows_after_the_last_save_are_cut_off(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with Report(tmp_path, terminal(False)) as report:
        report.training(ROW, 0)
        kept = report.sync()
        report.training(ROW | {"step": 51}, 0)
    # Half a row, as a kill may leave it.
    path.write_bytes(path.read_bytes() + b'{"kind": "tr')
    with Report(tmp_path, terminal(False), keep_bytes=kept) as report:
        report.training(ROW | {"step": 52}, 0)
    assert [row["step"] for row in read_metrics(tmp_path)] == [50, 52]


def test_a_run_goes_on_where_its_rows_were_lost(tmp_path):
    with Report(tmp_path, terminal(False), keep_bytes=1000) as report:
        report.training(ROW, 0)
    assert [row["step"] for row in read_metrics(tmp_path)] == [50]


def test_a_folder_without_rows(tmp_path):
    assert read_metrics(tmp_path) == []


def test_perplexity_is_always_a_json_number():
    assert perplexity(0.0) == 1.0
    assert perplexity(2.0) == pytest.approx(7.389, abs=1e-3)
    assert json.loads(json.dumps(perplexity(1e6))) == perplexity(700.0) > 1e300


def test_the_data_report_names_what_was_left_out():
    summary = DatasetSummary(
        lines=1200,
        kept=1000,
        left_out={"blank source": 150, "blank target": 0, "source too long": 50},
        extra_columns=7,
        source_tokens=5000,
        target_tokens=6000,
        source_unknown_rate=0.0123,
        target_unknown_rate=0.0,
        source_histogram=[0, 0, 10, 80],
        target_histogram=[0] * 40 + [5],
    )
    lines = data_report(summary)
    assert lines[0] == (
        "pairs     1,000 of 1,200 kept; left out: 150 blank source, 50 source too long"
    )
    assert "7 lines have more than two" in lines[1]
    assert lines[2] == "source    5,000 tokens, 1.23% unknown, lengths 0   ▁█ 3"
    assert lines[3].startswith("target    6,000 tokens, 0.00% unknown, lengths 0 ")
    assert lines[3].endswith("█ 40 (a bar is 3 lengths)")
    assert "left out: none" in data_report(summary._replace(left_out={"blank source": 0}))[0]
