"""Imports translation models of other programs as model directories; one module for each family."""
