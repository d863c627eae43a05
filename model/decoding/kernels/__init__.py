"""The encoder, greedy and beam search for a CPU, compiled by numba: they translate."""
