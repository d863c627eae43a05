"""SentencePiece tokenizers of imported models."""
