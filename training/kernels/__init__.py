"""Compiled attention for a training step on a CPU."""
