"""A table of Unity Catalog that the catalog manages: ratified commits, and their publication."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.builders import UUIDS, add, commit_info, content, metadata, protocol, staged_commit_file, write_log
from tests.unity_server import UnityServer

NAME = "main.silver.events"
ID = f"id-of-{NAME}"
_MANAGED = {"properties": {"delta.feature.catalogManaged": "supported"}, "table_type": "MANAGED"}


def ratified(folder: Path, versions: range) -> list[dict[str, Any]]:
    """Write staged commits of a table, and return them as the catalog does."""
    found = []
    for version in versions:
        name = staged_commit_file(version, UUIDS[version])
        file = folder / "_delta_log" / "_staged_commits" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content([commit_info(inCommitTimestamp=version), add(f"{version}")]))
        size = file.stat().st_size
        times = {"timestamp": version, "file_modification_timestamp": version}
        found.append({"version": version, "file_name": name, "file_size": size, **times})
    return found


def managed(unity: UnityServer, folder: Path) -> None:
    features = protocol(3, 7, readerFeatures=["catalogManaged"], writerFeatures=["catalogManaged", "inCommitTimestamp"])
    enabled = {"delta.enableInCommitTimestamps": "true"}
    first = [commit_info(inCommitTimestamp=0), features, metadata(configuration=enabled)]
    write_log(folder, {0: first, 1: [commit_info(inCommitTimestamp=1), add("1")]})
    unity.add(NAME, folder.as_uri(), **_MANAGED)


def publish(folder: Path, unity: UnityServer, last: int) -> None:
    """Publish the ratified commits up to a version, as a writer does: the staged files are deleted."""
    known = unity.commits[ID]["commits"]
    for commit in [commit for commit in known if commit["version"] <= last]:
        staged = folder / "_delta_log" / "_staged_commits" / commit["file_name"]
        staged.rename(folder / "_delta_log" / f"{commit['version']:020}.json")
        known.remove(commit)


def ratify(folder: Path, unity: UnityServer, first: int, last: int) -> None:
    """Ratify the next commits: nothing publishes them."""
    commits = unity.commits.setdefault(ID, {"commits": []})
    commits.update(commits=[*commits["commits"], *ratified(folder, range(first, last + 1))], latest_table_version=last)
