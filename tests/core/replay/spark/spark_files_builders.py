"""Builders for the tests of spark files."""

from __future__ import annotations


class Probe:
    """A fake Spark that can read some schemes and records its requests."""

    def __init__(self, *schemes: str) -> None:
        self.schemes = schemes
        self.requested: list[str] = []

    def __call__(self, url: str) -> bool:
        self.requested.append(url)
        return url.partition(":")[0] in self.schemes
