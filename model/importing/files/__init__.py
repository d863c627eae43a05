"""Reads untrusted checkpoint files of other programs."""
