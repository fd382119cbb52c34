"""What `deltasnap fleet` prints."""
