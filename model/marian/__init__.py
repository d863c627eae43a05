"""Imports MarianMT checkpoints, such as those of OPUS-MT, as model directories."""
