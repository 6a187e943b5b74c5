from luong.reproduce.system import Measured, Published
from luong.reproduce.table import Row, format_table


def test_what_is_here_stands_beside_what_was_printed():
    rows = [
        Row("base", Measured(12.5, 10.04, 10.2), Published("10.6", "11.3")),
        Row("best", Measured(8.25, 9, 21.06, 0.347), Published(">7.0", "x", "1", "0.39"), True),
    ]
    head, first, second = format_table("Table 1", rows).splitlines()
    columns = ["ppl", "BLEU", "+unk", "AER"]
    assert head.split() == ["Table", "1", *columns, "|", "paper:", *columns]
    assert first.split() == ["base", "12.50", "10.0", "10.2", "|", "10.6", "11.3"]
    assert second.split() == ["best", "8.25", "21.1", "0.35", "|", ">7.0", "x", "1", "0.39"]
    # Each number ends below its heading.
    assert first.index("12.50") + 5 == second.index("8.25") + 4 == head.index("ppl") + 3
    assert second.index("21.1") + 4 == head.index("+unk") + 4
    assert first.index("10.6") + 4 == second.index(">7.0") + 4 == head.rindex("ppl") + 3
