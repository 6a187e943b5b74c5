"""The papers' experiments on a corpus and a machine of one's own, each in one command."""
