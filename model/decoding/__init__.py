"""Greedy and beam search over a key-value cache."""
