"""The Spark session of a run."""
