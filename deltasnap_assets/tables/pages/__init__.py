"""What the page of each asset shows."""
