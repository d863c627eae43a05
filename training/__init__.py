"""Training: reads corpora, trains models, writes their checkpoints and evaluates them."""
