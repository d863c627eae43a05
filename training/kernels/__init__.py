"""Compiled kernels of a training step on a CPU: what lies between the matrix products."""
