"""The asset checks."""
