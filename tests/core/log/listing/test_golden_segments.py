"""The expected segment of every golden version, or the expected error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core.errors import DeltaTableNotFoundError, VersionGapError, VersionNotFoundError
from deltasnap_core.log.listing.catalog_commits import CatalogCommits
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import join_url, to_url

# Other categories depend on the content of files, which a segment does not read.
REFUSALS = {
    "no_table": DeltaTableNotFoundError,
    "version_not_found": VersionNotFoundError,
    "version_gap": VersionGapError,
}


def builder_of(golden: Path, table: str) -> LogSegmentBuilder:
    return LogSegmentBuilder(FsspecLogStore(), to_url(golden / "tables" / table / "_delta_log"))


def expected_files(golden: Path) -> list[tuple[str, dict[str, Any]]]:
    return [(file.stem, json.loads(file.read_text())) for file in sorted((golden / "expected").glob("*.json"))]


def described(segment: LogSegment) -> dict[str, Any]:
    """A segment in the form of the expected files."""

    def names(files: Any) -> list[str]:
        return [file.path.removeprefix(f"{segment.log_path}/") for file in files]

    checkpoint = segment.checkpoint_provider
    return {
        "checkpoint_files": names(checkpoint.files),
        "checkpoint_kind": checkpoint.kind,
        "checkpoint_version": None if checkpoint.is_empty else checkpoint.version,
        "compaction_files": names(segment.compactions),
        "delta_files": names(segment.deltas),
    }


def difference(builder: LogSegmentBuilder, version: int | None, answer: dict[str, Any], *, with_hint: bool) -> Any:
    """The difference between the segment and the expected result; None: equal."""
    refusal = REFUSALS.get(answer.get("error", ""))
    try:
        segment = builder.build(version, hint=builder.read_hint() if with_hint else None)
    except (DeltaTableNotFoundError, VersionGapError, VersionNotFoundError) as error:
        return None if type(error) is refusal else error
    if "error" in answer:
        return f"expected {answer}" if refusal else None
    found = described(segment)
    expected = {key: answer["log_segment"][key] for key in found}
    return None if found == expected and segment.version == answer["version"] else (found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("with_hint", [True, False], ids=["with hint", "without hint"])
def test_segment_matches_the_expected_one_at_every_version(golden: Path, with_hint: bool) -> None:
    cases, different = 0, {}
    for table, expected in expected_files(golden):
        builder = builder_of(golden, table)
        if not (with_hint or (golden / "tables" / table / "_delta_log" / "_last_checkpoint").exists()):
            continue
        answers: list[tuple[int | None, dict[str, Any]]] = [(None, expected["latest"])]
        answers += [(int(v), answer) for v, answer in (expected["versions"] | expected["refused_versions"]).items()]
        cases += len(answers)
        for version, answer in answers:
            if found := difference(builder, version, answer, with_hint=with_hint):
                different[table, version] = found
    assert different == {}
    assert cases >= (817 if with_hint else 411)


def test_segment_with_the_catalogs_log_tail_has_the_staged_commits(golden: Path) -> None:
    cases = 0
    for table, expected in expected_files(golden):
        if "latest_with_staged_commits" not in expected:
            continue
        builder, answer = builder_of(golden, table), expected["latest_with_staged_commits"]
        listed = builder.store.list_from(join_url(builder.log_path, "_staged_commits/0"))
        ratified = [
            file for file in listed if file.name in {Path(name).name for name in answer["log_segment"]["delta_files"]}
        ]
        segment = builder.build(catalog=CatalogCommits(log_tail=tuple(ratified), max_version=answer["version"]))
        found = described(segment)
        assert (segment.version, found) == (answer["version"], {key: answer["log_segment"][key] for key in found})
        cases += 1
    assert cases == 1


def test_segment_survives_json(golden: Path) -> None:
    cases = 0
    for table, expected in expected_files(golden):
        if "error" in expected["latest"]:
            continue
        segment = builder_of(golden, table).build()
        found = LogSegment.from_json(
            json.loads(json.dumps(segment.to_json_without_lists())),
            log_path=segment.log_path,
            deltas=segment.deltas,
            compactions=segment.compactions,
            checkpoint_files=segment.checkpoint_provider.files,
        )
        assert found == segment
        cases += 1
    assert cases >= 154
