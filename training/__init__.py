"""Writes the checkpoints that the page loads."""
