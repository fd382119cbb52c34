"""The complete output of the commands that use no Spark, for one table."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deltasnap_assets.command.cli import app
from deltasnap_assets.quantities import bytes_text
from deltasnap_assets.settings.loading import CONFIG_VARIABLE
from deltasnap_core.protocol.log_files.file_names import commit_file
from tests.assets.command.cli_builders import java_of
from tests.builders import VECTOR_AT_4, add, commit_info, metadata, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint
from tests.snapshots import assert_snapshot

FEATURES = ["deletionVectors", "domainMetadata"]
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "Day", "type": "string", "nullable": True, "metadata": {}},
    ],
}


def stats(records: int) -> str:
    return json.dumps({"numRecords": records})


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the table `events`: versions 0 to 5, a checkpoint of version 2."""
    start = [
        protocol(3, 7, readerFeatures=FEATURES[:1], writerFeatures=FEATURES),
        metadata(
            name="clicks",
            description="all of them",
            schemaString=json.dumps(SCHEMA),
            partitionColumns=["day"],
            configuration={"delta.appendOnly": "false", "a": "1"},
        ),
    ]
    written = [add(f"day={day}/{n}", size=1000 * n, stats=stats(n), partitionValues={"day": day}) for n, day in FILES]
    parameters = {"mode": "Append", "partitionBy": "[]", "predicate": ""}
    log = write_log(
        tmp_path / "events",
        {
            0: [commit_info("CREATE TABLE", engineInfo="spark"), *start],
            1: [commit_info(operationParameters=parameters, userName="ada", userId="7"), *written],
            2: [commit_info("DELETE", userId="7"), remove("day=b/2", size=2000)],
            3: [
                commit_info("DELETE", operationMetrics={"numDeletedRows": "1", "scanTimeMs": "5"}),
                remove("day=b/3", size=3000),
                add("day=b/3", size=3000, stats=stats(3), partitionValues={"day": "b"}, deletionVector=VECTOR_AT_4),
            ],
            4: [{"txn": {"appId": "stream", "version": 8}}],
            5: [{"domainMetadata": {"domain": "delta.clustering", "configuration": "{}", "removed": False}}],
        },
    )
    write_checkpoint(log, 2, "multipart", [*start, written[0], written[2], remove("day=b/2", size=2000)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


FILES = ((1, "a"), (2, "b"), (3, "b"))


def output(*arguments: str) -> str:
    """Return what a command prints on stdout, without spaces at the ends of lines."""
    result = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    return "\n".join(line.rstrip() for line in result.stdout.splitlines())


def test_lost_commits_have_a_row_with_only_their_versions_and_the_reason(lake: Path) -> None:
    log = lake / "events" / "_delta_log"
    (log / commit_file(4)).unlink()
    (log / commit_file(3)).unlink()
    rows = [line.rstrip() for line in CliRunner().invoke(app, ["history", "events"]).stdout.splitlines()]
    assert [row for row in rows if row[1] in "345"] == [
        " 5        2023-11-14 22:18:20         unknown",
        " 3-4                                  missing: versions 3 to 5 cannot be loaded",
    ]
    assert (
        json.loads(CliRunner().invoke(app, ["history", "events", "--json"]).stdout)["rows"][1].items()
        >= {"version": 3, "last_version": 4}.items()
    )


@pytest.mark.slow
def test_fault_of_a_lost_commit_is_reported_once(lake: Path) -> None:
    (lake / "events" / "_delta_log" / commit_file(5)).write_text("{nope")
    result = CliRunner().invoke(app, ["history", "events"])
    assert result.exit_code == 1
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["error"]


def test_inspect_shows_the_newest_loadable_version_with_its_lost_commits(lake: Path) -> None:
    log = lake / "events" / "_delta_log"
    (log / commit_file(4)).unlink()
    (log / commit_file(1)).write_text("{nope")
    result = CliRunner().invoke(app, ["inspect", "events"])
    rows = [line.rstrip() for line in result.stdout.splitlines()]
    assert result.exit_code == 1
    assert rows[2].startswith("version          3, committed ")
    assert rows[2].endswith(" UTC, the newest loadable version")
    assert " 1                                                  cannot be read: line 1: expected a line of" in rows


@pytest.mark.slow
@pytest.mark.parametrize(("width", "columns"), [(100, 5), (99, 4)])
def test_narrow_terminal_shows_no_writers(
    lake: Path, monkeypatch: pytest.MonkeyPatch, width: int, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    (lake / "events" / "_delta_log" / commit_file(1)).write_text("{nope")
    result = CliRunner().invoke(app, ["inspect", "events"])
    (header,) = (line for line in result.stdout.splitlines() if line.startswith(" version "))
    assert len(re.split("  +", header.strip())) == columns


def test_diff_shows_the_changes_of_metadata_and_protocol(tmp_path: Path) -> None:
    after = [commit_info("UPGRADE"), protocol(2, 5), metadata(configuration={"a": "1"})]
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")], 1: after, 2: [remove("a")]})
    assert output("diff", str(tmp_path), "0", "2").splitlines() == [
        "version 0 to 2: 2 commits",
        "  property a = 1 added",
        "  reader version 2, was 1",
        "  writer version 5, was 2",
        "  + 0 files, 0 B",
        "  - 1 file, 1 B",
        "      a",
    ]


def test_diff_shows_the_first_ten_files_and_whether_their_size_is_known(tmp_path: Path) -> None:
    names = [f"{number:02}" for number in range(11)]
    start = [protocol(), metadata(), *(add(name, size=10) for name in names)]
    write_log(tmp_path, {0: start, 1: [remove(name) for name in names[:10]], 2: [add(name, size=7) for name in names]})
    shown = output("diff", str(tmp_path), "0", "1").splitlines()
    assert shown[1:3] == ["  + 0 files, 0 B", "  - 10 files, 100 B"]
    assert shown[3:] == [f"      {name}" for name in names[:10]]
    shown = output("diff", str(tmp_path), "1", "2").splitlines()
    assert shown[1] == "  + 10 files, 70 B"
    write_log(tmp_path, {3: [remove(name) for name in names]})
    shown = output("diff", str(tmp_path), "2", "3").splitlines()
    assert shown[-2:] == ["      09", "      and 1 more; --json has all of them"]


COLOURS = {
    "inspect events": [
        *("\x1b[1mfile://", "\x1b[36mclicks", "\x1b[3mall of them", "\x1b[2mtable id ", "\x1b[2mcolumn "),
        *("\x1b[2mcommitted (UTC)", "\x1b[3mlast 6 commits", "\x1b[2mtombstones ", "\x1b[3mschema "),
    ],
    "history events": ["\x1b[2mcommitted (UTC)"],
    "doctor": ["\x1b[32mok      Spark", "\x1b[31merror   configuration"],
}


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("command", COLOURS)
def test_terminal_shows_headers_and_marks_in_colour(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = CliRunner().invoke(app, command.split(), catch_exceptions=False).stdout
    assert [part for part in COLOURS[command] if part not in shown] == []


@pytest.fixture
def configured(lake: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the table with a configuration, and a Java that prints its version without starting a JVM."""
    (lake / "deltasnap.yaml").write_text("storage: store\ntables: [{name: events, path: events}]", encoding="utf-8")
    monkeypatch.setenv("JAVA_HOME", java_of(lake, "17.0.9"))
    for name in ("DAGSTER_HOME", CONFIG_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    return lake


def test_doctor_as_json_has_the_versions_that_can_be_loaded(configured: Path) -> None:
    (configured / "events" / "_delta_log" / commit_file(4)).unlink()
    result = CliRunner().invoke(app, ["doctor", "--json"])
    broken = next(each for each in json.loads(result.stdout)["rows"] if each["subject"] == "table events")
    assert (result.exit_code, broken["mark"], broken["condition"]["loadable_versions"]) == (1, "error", [[0, 3]])
    assert broken["message"].endswith(" Loadable: versions 0 to 3.")


OUTPUTS = {
    "history shows writers and counts": "history events",
    "history as json has the fields of the commits": "history events --limit 5 --json",
    "inspect shows a version completely": "inspect events",
    "inspect shows what an early version lacks": "inspect events --version 1 --commits 1",
    "inspect as json has segment, state and condition": "inspect events --commits 1 --json",
    "diff lists the files of each side": "diff events 5 1",
    "diff as json has operations, files and vectors": "diff events 1 5 --json",
    "doctor has a result for each check": "doctor",
    "doctor as json has the condition of tables": "doctor --json",
}


@pytest.mark.parametrize("command", OUTPUTS.values(), ids=OUTPUTS)
def test_output_is_that_of_its_snapshot(command: str, configured: Path) -> None:
    text = output(*command.split()).replace(str(configured), "LAKE").replace(version("pyspark"), "VERSION")
    sizes = [part.stat().st_size for part in (configured / "events").glob("_delta_log/*.parquet")]
    text = text.replace(f"2 files, {bytes_text(sum(sizes))}", "2 files, SIZE")
    for size in sizes:  # those of the writer of Parquet
        text = text.replace(f'"size": {size}', '"size": 0')
    name = command.replace(" --json", ".json") if "--json" in command else f"{command}.txt"
    found = json.loads(text) if "--json" in command else text
    assert_snapshot(Path(__file__).with_name(name.replace(" --", " ").replace(" ", "_")), found)
