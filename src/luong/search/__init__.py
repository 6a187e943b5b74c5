"""Search: the best outputs of a step function, and translating text with them."""

from luong.search.beam import Hypothesis, beam_search
from luong.search.links import aligned_rows, pharaoh, word_links, words_of_tokens
from luong.search.penalties import NORMALIZATIONS, length_divisor
from luong.search.settings import SearchOptions, SearchSettings
from luong.search.translation import Translation
from luong.search.translator import Translator
from luong.search.workers import TranslatorPool, open_translator

__all__ = [
    "NORMALIZATIONS",
    "Hypothesis",
    "SearchOptions",
    "SearchSettings",
    "Translation",
    "Translator",
    "TranslatorPool",
    "aligned_rows",
    "beam_search",
    "length_divisor",
    "open_translator",
    "pharaoh",
    "word_links",
    "words_of_tokens",
]
