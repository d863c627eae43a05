"""Plotly and Altair charts for notebooks and the study."""
