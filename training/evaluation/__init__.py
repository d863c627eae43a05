"""Scores, alignment and the study of trained models."""
