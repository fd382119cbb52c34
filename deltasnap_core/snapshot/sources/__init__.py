"""The data that the metadata tables of a snapshot read."""
