"""The condition of a table: reports, last polls, alerts."""
