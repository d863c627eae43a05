"""Exchanges models with other programs: imports checkpoints, and exports models that were trained here."""
