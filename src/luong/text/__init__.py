"""Text and its numbers: corpora, vocabularies, tokenizers, data sets and batches."""
