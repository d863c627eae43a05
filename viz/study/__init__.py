"""The page about the heads of the shipped models."""
