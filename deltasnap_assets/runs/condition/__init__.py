"""What is wrong with a table: reports, last looks, alerts."""
