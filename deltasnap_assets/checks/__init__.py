"""The checks of a table: each is one class in one file. `registry.py` lists them."""
