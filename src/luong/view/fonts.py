"""Fonts that cover a text, whatever its script."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from matplotlib import font_manager, ft2font

logger = logging.getLogger(__name__)

DEFAULT_FAMILY = "DejaVu Sans"
NO_GLYPH = "\N{REPLACEMENT CHARACTER}"
"""What a picture shows in place of a character that no font has."""

# Since 3.11 matplotlib orders and joins letters itself, by libraqm.
_SHAPES_TEXT = hasattr(ft2font, "__libraqm_version__")
# It has a box for every character, and so would pass for a font that covers everything.
_PLACEHOLDER_FAMILY = "Last Resort"
_SYMBOLS = "emoji or symbol"
_UNNAMED = "private or unassigned"


class Fonts(NamedTuple):
    """The fonts of a picture.

    Attributes:
        families: Font families in the order in which matplotlib should try them.
        missing: The characters that no installed font has.
    """

    families: list[str]
    missing: frozenset[str]

    def printable(self, text: str) -> str:
        """Make a text drawable: replace what no font has, and put it in the order of drawing.

        matplotlib before 3.11 draws characters from left to right as they are stored. There, a
        text whose letters are all of a right-to-left script is turned around (which gives the
        right order, though Arabic letters stay unjoined); a text of mixed direction is not.

        Args:
            text: What is to be drawn.

        Returns:
            The text to hand to matplotlib.

        Example:
            >>> Fonts(["DejaVu Sans"], frozenset("本")).printable("a本")
            'a\N{REPLACEMENT CHARACTER}'
        """
        text = "".join(
            _substitute(character) if character in self.missing else character for character in text
        )
        return text if _SHAPES_TEXT else _reverse_right_to_left(text)


def fonts_for(texts: Iterable[str]) -> Fonts:
    """Choose installed fonts that together have every character of some texts.

    Other fonts than DejaVu Sans are opened only if it lacks a character. What no font has is
    logged once for each script, with the way to mend it.

    Args:
        texts: All texts of the picture.

    Returns:
        The font families and the characters that none of them has.

    Example:
        >>> fonts_for(["Straße", "улица"]).families
        ['DejaVu Sans']
    """
    characters = frozenset[str]().union(*texts)
    missing = characters - _covered(font_manager.findfont(DEFAULT_FAMILY), characters)
    wanted = frozenset(character for character in missing if _substitute(character) == NO_GLYPH)
    families = [DEFAULT_FAMILY]
    if wanted:
        candidates = sorted(_installed(), key=lambda font: _preference(font[0], wanted))
        for family, path in candidates:
            covered = _covered(path, wanted & missing)
            if covered:
                families.append(family)
                missing -= covered
            if not wanted & missing:
                break
    for script in sorted({_script(character) for character in wanted & missing}):
        _report_missing(script)
    return Fonts(families, missing)


def _substitute(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cc":
        return " "
    # Joiners and variation selectors shape their neighbours and are not seen themselves.
    return "" if category == "Cf" or "\ufe00" <= character <= "\ufe0f" else NO_GLYPH


def _covered(path: str, characters: frozenset[str]) -> frozenset[str]:
    font = ft2font.FT2Font(path)
    return frozenset(
        character for character in characters if font.get_char_index(ord(character)) != 0
    )


@lru_cache(maxsize=1)
def _installed() -> tuple[tuple[str, str], ...]:
    # matplotlib remembers the fonts it once found and does not see those installed since.
    manager = font_manager.fontManager
    known = {entry.fname for entry in manager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        try:
            manager.addfont(path)
        except Exception as error:  # FreeType raises several kinds, and one bad file is no harm.
            logger.debug("matplotlib cannot use the font %s: %s", path, error)
    return tuple(
        {
            entry.name: entry.fname
            for entry in manager.ttflist
            if entry.style == "normal"
            and str(entry.weight) in ("400", "normal", "regular")
            and not entry.name.startswith(_PLACEHOLDER_FAMILY)
        }.items()
    )


def _preference(family: str, characters: frozenset[str]) -> tuple[bool, bool, bool, str]:
    # Chinese, Japanese and Korean write the same code points differently; kana and hangul tell
    # which is meant.
    scripts = {_script(character) for character in characters}
    region = "JP" if scripts & {"HIRAGANA", "KATAKANA"} else "KR" if "HANGUL" in scripts else "SC"
    return ("Sans" not in family, "Mono" in family, not family.endswith(region), family)


def _script(character: str) -> str:
    if unicodedata.category(character).startswith("S"):
        return _SYMBOLS
    name = unicodedata.name(character, "")
    return name.split()[0] if name else _UNNAMED


@cache
def _report_missing(script: str) -> None:
    if script == _SYMBOLS:
        font = "Noto Emoji (fonts in colour cannot be drawn)"
    elif script in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL"):
        font = "Noto Sans CJK"
    elif script == _UNNAMED:
        font = "the one the text was written for"
    else:
        font = f"Noto Sans {script.capitalize()}"
    logger.warning(
        "No installed font has all %s characters of this picture, which shows %s in their place. "
        "Install a font that has them, for example %s, and start again.",
        script,
        NO_GLYPH,
        font,
    )


def _reverse_right_to_left(text: str) -> str:
    directions = {unicodedata.bidirectional(character) for character in text}
    if not directions & {"R", "AL"} or "L" in directions:
        return text
    clusters: list[str] = []
    for character in text:
        # Marks stay behind the letter that carries them, numbers keep their order.
        follows = clusters and (
            unicodedata.combining(character) or (character.isdigit() and clusters[-1][-1].isdigit())
        )
        if follows:
            clusters[-1] += character
        else:
            clusters.append(character)
    return "".join(reversed(clusters))
