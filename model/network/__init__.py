"""The Transformer itself; read it next to "Attention Is All You Need" (Vaswani et al. 2017)."""
