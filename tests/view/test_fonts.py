import logging

import pytest

from luong.view import fonts
from luong.view.fonts import Fonts, fonts_for

CUNEIFORM = "\N{CUNEIFORM SIGN A}\N{CUNEIFORM SIGN AN}"


@pytest.fixture
def no_other_fonts(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda: ())
    fonts._report_missing.cache_clear()
    yield
    fonts._report_missing.cache_clear()


def test_no_other_font_is_looked_at_where_the_default_suffices(monkeypatch):
    monkeypatch.setattr(fonts, "_installed", lambda: pytest.fail("fonts were scanned"))
    chosen = fonts_for(["Straße", "улица", "▁the", "שלום", "سلام", "a\u200db\ufe0f"])
    assert chosen == Fonts(["DejaVu Sans"], frozenset())


def test_another_font_is_found_for_what_the_default_lacks():
    # matplotlib brings STIX, which has this mark; DejaVu Sans has not.
    mark = "\N{COMBINING ENCLOSING CIRCLE}"
    chosen = fonts_for(["a", mark])
    assert chosen.families[0] == "DejaVu Sans"
    assert len(chosen.families) == 2
    assert not chosen.missing
    assert chosen.printable(mark) == mark


def test_only_fonts_that_help_are_chosen(monkeypatch):
    paths = dict(fonts._installed())
    candidates = (("cmr10", paths["cmr10"]), ("STIXGeneral", paths["STIXGeneral"]))
    monkeypatch.setattr(fonts, "_installed", lambda: candidates)
    chosen = fonts_for(["\N{COMBINING ENCLOSING CIRCLE}"])
    assert chosen.families == ["DejaVu Sans", "STIXGeneral"]


def test_the_font_of_placeholder_boxes_is_never_chosen():
    assert not [family for family, _ in fonts._installed() if family.startswith("Last Resort")]


@pytest.mark.usefixtures("no_other_fonts")
def test_missing_scripts_are_reported_once_with_the_remedy(caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            chosen = fonts_for([CUNEIFORM, "日本"])
    assert chosen.missing == set(CUNEIFORM + "日本")
    assert chosen.printable(f"a{CUNEIFORM}") == "a��"
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "CJK" in messages[0]
    assert "Noto Sans CJK" in messages[0]
    assert "Noto Sans Cuneiform" in messages[1]


@pytest.mark.usefixtures("no_other_fonts")
def test_characters_that_are_not_seen_are_not_reported(caplog):
    tag = "\N{TAG LATIN CAPITAL LETTER A}"
    assert fonts_for([f"a\tb{tag}c"]).printable(f"a\tb{tag}c") == "a bc"
    assert not caplog.records


@pytest.mark.usefixtures("no_other_fonts")
def test_characters_without_a_name_are_reported_too(caplog):
    chosen = fonts_for(["\ud83d"])
    assert chosen.printable("\ud83d") == "�"
    assert "private or unassigned" in caplog.records[0].getMessage()


@pytest.mark.parametrize(
    ("text", "family"),
    [("日本", "Noto Sans CJK SC"), ("日本の", "Noto Sans CJK JP"), ("日本한", "Noto Sans CJK KR")],
)
def test_regional_forms_follow_the_script_beside_them(text, family):
    families = ["Noto Serif CJK JP", "Noto Sans Mono CJK SC", "Noto Sans Arabic"]
    families += [f"Noto Sans CJK {region}" for region in ("HK", "JP", "KR", "SC", "TC")]
    characters = frozenset(text)
    assert min(families, key=lambda name: fonts._preference(name, characters)) == family


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("שלום", "םולש"),
        ("שָׁלוֹם", "םוֹלשָׁ"),
        ("עמוד 12", "12 דומע"),
        ("hello", "hello"),
        ("12", "12"),
        ("שלום world", "שלום world"),
    ],
)
def test_old_matplotlib_gets_right_to_left_text_turned_around(text, drawn, monkeypatch):
    monkeypatch.setattr(fonts, "_SHAPES_TEXT", False)
    assert Fonts(["DejaVu Sans"], frozenset()).printable(text) == drawn


def test_new_matplotlib_gets_text_as_it_is(monkeypatch):
    monkeypatch.setattr(fonts, "_SHAPES_TEXT", True)
    assert Fonts(["DejaVu Sans"], frozenset()).printable("שלום") == "שלום"
