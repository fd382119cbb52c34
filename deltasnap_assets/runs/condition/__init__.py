"""The condition of a table: reports, last looks, alerts."""
