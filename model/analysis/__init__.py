"""Analysis of heads, for one translation or for many."""
