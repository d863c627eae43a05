"""Where a word of the translation came from: what it loses without source tokens, and its routes."""
