"""Greedy and beam search with a key-value cache."""
