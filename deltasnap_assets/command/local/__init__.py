"""The local Dagster instance and the processes of `deltasnap ui`."""
