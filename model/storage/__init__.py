"""Model directories and the files in them."""
