"""Attention for sequences."""
