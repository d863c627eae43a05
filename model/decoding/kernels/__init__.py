"""The encoder, greedy and beam search for a CPU, compiled by numba: what answers one sentence on the page."""
