"""From files or the hub to batches: reading, cleaning, splitting, encoding, batching."""
