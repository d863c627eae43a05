"""What a run writes to its directory, and what is made from it afterwards."""
