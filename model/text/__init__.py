"""The text side: tokenizers of every kind, and the names and codes of languages."""
