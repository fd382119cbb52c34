"""The assets, and how their values are stored and loaded."""
