"""The checks of a table: `registry.py` has all of them."""
