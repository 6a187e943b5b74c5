"""The embedded demo corpus; see README.md for source, licence and attribution."""
