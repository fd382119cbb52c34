"""Rows of a table as the output of a command: options, formats, exact values."""
