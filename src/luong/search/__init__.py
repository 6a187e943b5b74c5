"""Search: the best outputs of a step function; translating text and captioning with them."""

from luong.search.beam import Hypothesis, beam_search
from luong.search.caption import Caption
from luong.search.captioner import Captioner
from luong.search.ensemble import Ensemble, EnsembleFolder, averaged_step, load_folders
from luong.search.forced import align_pairs, forced_decode
from luong.search.links import aligned_rows, pharaoh, word_links, words_of_tokens
from luong.search.penalties import NORMALIZATIONS, length_divisor
from luong.search.settings import SearchOptions, SearchSettings
from luong.search.translation import Translation
from luong.search.translator import Translator
from luong.search.workers import TranslatorPool, open_translator

__all__ = [
    "NORMALIZATIONS",
    "Caption",
    "Captioner",
    "Ensemble",
    "EnsembleFolder",
    "Hypothesis",
    "SearchOptions",
    "SearchSettings",
    "Translation",
    "Translator",
    "TranslatorPool",
    "align_pairs",
    "aligned_rows",
    "averaged_step",
    "beam_search",
    "forced_decode",
    "length_divisor",
    "load_folders",
    "open_translator",
    "pharaoh",
    "word_links",
    "words_of_tokens",
]
