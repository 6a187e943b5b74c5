import pytest

from luong.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("It cost 3.5 approx. in all. More.", ["It cost 3.5 approx. in all.", "More."]),
        ("J. R. Smith came, e.g. from Rome. So?", ["J. R. Smith came, e.g. from Rome.", "So?"]),
        ("“Stop!” he said. (Really.) Yes.", ["“Stop!” he said.", "(Really.)", "Yes."]),
        ("Wait... what? yes!! no", ["Wait... what?", "yes!!", "no"]),
        ("see luong.load. See www.a.org now", ["see luong.load.", "See www.a.org now"]),
        ("你好。再见！真的？是", ["你好。", "再见！", "真的？", "是"]),
        ("a title\n\n  and a line\r\nmore", ["a title", "and a line", "more"]),
        ("tokens , as found . next one ! end", ["tokens , as found .", "next one !", "end"]),
        ("titan a . e . is here . yes", ["titan a . e . is here .", "yes"]),
        ("", []),
        (" \n\t ", []),
        ("...", ["..."]),
        ("Vitamin C. Then 2. Then", ["Vitamin C. Then 2.", "Then"]),
    ],
)
def test_sentences(text, sentences):
    assert split_sentences(text) == sentences


def test_no_word_is_lost():
    text = "A b. C.D e?! (F.) “G.” H。I... j. 1.2.3 K"
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
