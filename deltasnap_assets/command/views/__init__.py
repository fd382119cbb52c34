"""What the commands print about tables."""
