"""What one translation, or a sample of them, says about the heads."""
