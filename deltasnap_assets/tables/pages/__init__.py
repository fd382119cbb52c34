"""The content of each asset's page."""
