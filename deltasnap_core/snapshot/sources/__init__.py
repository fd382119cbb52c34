"""What the metadata tables of a snapshot read."""
