"""Show a Delta table with deltasnap_core: python examples/library.py PATH [CONDITION]."""

from __future__ import annotations

import sys

from deltasnap_core import open_table


def show(path: str, condition: str | None) -> None:
    """Print facts about the latest version of a table, and some of its rows."""
    table = open_table(path)
    print(f"version {table.version}: {', '.join(table.schema.names)}")
    for commit in table.history(limit=3).select("version", "timestamp", "operation").to_arrow().to_pylist():
        print(f"  {commit['version']}  {commit['timestamp']:%Y-%m-%d %H:%M}  {commit['operation']}")
    sizes = table.files().select("size").to_pandas()["size"]
    print(f"{len(sizes)} files, {sizes.sum()} bytes, {table.scan().count()} rows")  # so far, no Spark
    print(table.scan(condition).limit(5).to_pandas().to_string(index=False))


if __name__ == "__main__":
    show(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
