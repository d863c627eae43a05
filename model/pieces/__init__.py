"""Tokenizers of imported models: SentencePiece, byte-level BPE and the words of Moses."""
