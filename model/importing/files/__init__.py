"""Reads the files of a checkpoint of another program, which need not be trusted."""
