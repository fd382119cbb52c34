"""`deltasnap fleet`, using only the store, and the text format of Prometheus."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from benchmarks.stored_fleet import store_table
from deltasnap_assets.command.cli import app
from deltasnap_assets.command.views.fleet.fleet_view import fleet_text, read_rows, show_fleet
from deltasnap_assets.command.views.fleet.prometheus import label_value, prometheus_text
from deltasnap_assets.settings.loading import CONFIG_VARIABLE, load_settings
from deltasnap_core import Problem, SnapshotStore
from deltasnap_core.support import LastPoll, system_clock

DAY = 24 * 3_600_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three tables without logs: `a` is healthy, `b` is broken, and `c` has no poll. `b` grows fastest."""
    now = system_clock()
    for number, name in enumerate("abc", 1):
        store_table(tmp_path / "store", name, [(now - day * DAY, number * 10 - day) for day in range(9, -1, -1)])
    polls = SnapshotStore.open(None, tmp_path / "store").polls
    problem = Problem.of_check(check="log", severity="error", text="It is \x1b[31m[red]lost.", advice="Restore it.")
    polls.write("a", LastPoll(polled_at_ms=now, checked_version=9))
    polls.write("b", LastPoll(polled_at_ms=now, problems=(problem,)))
    tables = "".join(f"  - {{name: {name}, path: /nowhere/{name}}}\n" for name in "abc")
    (tmp_path / "deltasnap.yaml").write_text(f"storage: store\ntables:\n{tables}")
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "deltasnap.yaml"))
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["fleet", *arguments], catch_exceptions=False)


@pytest.mark.usefixtures("folder")
def test_tables_are_shown_worst_first_with_reason_and_advice() -> None:
    result = run()
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith("3 tables: 1 broken, 1 unknown, 1 healthy. ")
    assert [line.split()[:2] for line in lines[2:5]] == [["b", "broken"], ["c", "unknown"], ["a", "healthy"]]
    assert "broken b: It is \\x1b[31m[red]lost. Restore it." in lines[5]
    assert "\x1b" not in result.stdout


def polled_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a healthy table, and of a broken one."""
    rows(folder)
    store = SnapshotStore.open(None, folder)
    problem = Problem.of_check(check="log", severity="error", text="It is lost.", advice="Restore it.")
    poll = LastPoll(polled_at_ms=NOW, latest_version=5, owners=("team:web",), path="/orders", problems=(problem,))
    store.polls.write("orders", poll)
    found: list[dict[str, Any]] = store.fleet(now_ms=NOW).to_pylist()
    return found


def test_fleet_is_shown_completely(tmp_path: Path) -> None:
    shown = Console(file=io.StringIO(), width=120)
    found = polled_rows(tmp_path)
    show_fleet(shown, found, found)
    assert isinstance(shown.file, io.StringIO)
    assert [line.rstrip() for line in shown.file.getvalue().splitlines()] == [
        "2 tables: 1 broken, 1 healthy. 1,200 rows in 12 files, 12 MiB; +10 MiB in 7 days. VACUUM would free at least "
        "7 B.",
        " table   condition  last commit              version       rows  files   size  7 days  30 days  small  VACUUM",
        " orders  broken                              5 (1 behind)   600      6  6 MiB  +5 MiB   +5 MiB   100%",
        " events  healthy    0 seconds (0.0 x usual)  4              600      6  6 MiB  +5 MiB   +5 MiB   100%     7 B",
        "broken orders: It is lost. Restore it.",
    ]


def test_long_name_of_a_table_takes_half_of_the_width(tmp_path: Path) -> None:
    shown = Console(file=io.StringIO(), width=80)
    found = [{**row, "table": "n" * 60} for row in polled_rows(tmp_path) if not row["reason"]]
    show_fleet(shown, found, found)
    assert isinstance(shown.file, io.StringIO)
    names = [line.split()[0] for line in shown.file.getvalue().splitlines()[2:]]
    assert names == ["n" * 40, "n" * 20]


@pytest.mark.parametrize(
    ("condition", "colour"), [("broken", 31), ("unknown", 35), ("warned", 33), ("stale", 33), ("healthy", 32)]
)
def test_each_condition_has_its_colour(condition: str, colour: int, tmp_path: Path) -> None:
    coloured = Console(file=io.StringIO(), width=120, force_terminal=True, color_system="standard")
    found = [{**row, "condition": condition} for row in polled_rows(tmp_path) if row["reason"]]
    show_fleet(coloured, found, found)
    assert isinstance(coloured.file, io.StringIO)
    lines = coloured.file.getvalue().splitlines()
    assert lines[1].startswith("\x1b[2m")
    assert f"\x1b[{colour}m{condition}" in lines[2]
    assert lines[3].startswith(f"\x1b[{colour}m{condition} orders: ")


def test_json_of_a_fleet_has_totals_and_every_column(tmp_path: Path) -> None:
    found = polled_rows(tmp_path)
    shown = json.loads(fleet_text(found, found[:1], "json"))
    sums = {"num_records": 1200, "num_files": 12, "size_in_bytes": 12 << 20, "growth_7d_bytes": 10 << 20}
    assert shown["totals"] == {
        **dict.fromkeys(("unknown", "warned", "stale"), 0),
        "tables": 2,
        "broken": 1,
        "healthy": 1,
        "growth_30d_bytes": 10 << 20,
        "vacuum_bytes": 7,
        **sums,
    }
    assert shown["rows"] == [{**found[0], "reason": "It is lost.", "advice": "Restore it."}]


@pytest.mark.parametrize(
    ("width", "headers"),
    [
        (160, "table condition last commit version rows files size 7 days 30 days small VACUUM time travel"),
        (60, "table condition last commit version size"),
        (20, "table condition"),
    ],
)
def test_narrow_terminal_shows_the_most_important_columns_whole(folder: Path, width: int, headers: str) -> None:
    rows, chosen = read_rows(load_settings(folder / "deltasnap.yaml"), "condition")
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    show_fleet(console, rows, chosen)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[1].split() == headers.split()
    assert [line.split()[1] for line in lines[2:5]] == ["broken", "unknown", "healthy"]


@pytest.mark.usefixtures("folder")
def test_only_the_tables_in_a_condition_are_shown() -> None:
    names = [row["table"] for row in json.loads(run("--only", "broken", "--only", "healthy", "--json").stdout)["rows"]]
    assert names == ["b", "a"]
    assert run("--only", "perfect").exit_code == 2


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("order", "names"), [("name", "abc"), ("size", "cba"), ("growth", "abc"), ("condition", "bca")]
)
def test_tables_have_the_requested_order(order: str, names: str) -> None:
    found = json.loads(run("--sort", order, "--json").stdout)
    assert "".join(row["table"] for row in found["rows"]) == names


@pytest.mark.usefixtures("folder")
def test_json_has_the_totals_of_all_tables_and_the_columns_of_the_store() -> None:
    found = json.loads(run("--format", "json", "--only", "broken").stdout)
    assert (found["totals"]["tables"], found["totals"]["broken"], len(found["rows"])) == (3, 1, 1)
    assert found["rows"][0]["growth_7d_bytes"] == 7 * (1 << 20)
    assert "\x1b" not in found["rows"][0]["reason"]


@pytest.mark.usefixtures("folder")
def test_prometheus_output_has_each_table() -> None:
    text = run("--format", "prometheus").stdout
    assert [f'deltasnap_table_condition{{table="{name}",condition="healthy"}}' in text for name in "abc"] == [True] * 3


@pytest.mark.usefixtures("folder")
def test_prometheus_output_of_some_tables_has_the_totals_of_all_tables() -> None:
    text = run("--only", "broken", "--format", "prometheus").stdout
    assert [f'{{table="{name}"' in text for name in "abc"] == [False, True, False]
    for condition in ("broken", "unknown", "healthy"):
        assert f'deltasnap_tables{{condition="{condition}"}} 1\n' in text


@pytest.mark.usefixtures("folder")
def test_json_and_another_format_exclude_each_other() -> None:
    assert run("--json", "--format", "prometheus").exit_code == 2
    assert run("--json", "--format", "json").exit_code == 0


@pytest.mark.spark  # a separate program
def test_command_reads_no_log_starts_no_jvm_and_loads_no_dagster(folder: Path) -> None:
    code = (
        "import sys\n"
        "from pyspark import java_gateway\n"
        "def fail(*_, **__): raise AssertionError('a JVM')\n"
        "java_gateway.launch_gateway = fail\n"
        "sys.argv[1:] = ['fleet', '--json']\n"
        "from deltasnap_assets.command.cli import run\n"
        "try:\n    run()\nfinally:\n    assert 'dagster' not in sys.modules\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[5])}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["rows"]) == 3


SAMPLE = re.compile(
    r'(?P<name>[a-z_][a-z0-9_]*)\{(?P<labels>\w+="(?:[^"\\\n]|\\[\\"n])*"(?:,\w+="[^"]*")*)\} (?P<value>\S+)'
)


def test_every_line_is_a_comment_or_a_sample_of_the_metric_above(tmp_path: Path) -> None:
    names, current, lines = [], "", prometheus_text(rows(tmp_path)).splitlines()
    for line in lines:
        if line.startswith("# HELP "):
            current = line.split()[2]
            names.append(current)
        elif line.startswith("# "):
            assert line == f"# TYPE {current} gauge"
        else:
            found = SAMPLE.fullmatch(line)
            assert found is not None, line
            assert found["name"] == current
            float(found["value"])
    assert len(names) == len(set(names)) > 10


SAMPLES = """\
deltasnap_tables{condition="broken"} 0
deltasnap_tables{condition="unknown"} 1
deltasnap_tables{condition="warned"} 0
deltasnap_tables{condition="stale"} 0
deltasnap_tables{condition="healthy"} 1
deltasnap_table_condition{table="events",condition="broken"} 0
deltasnap_table_condition{table="events",condition="unknown"} 0
deltasnap_table_condition{table="events",condition="warned"} 0
deltasnap_table_condition{table="events",condition="stale"} 0
deltasnap_table_condition{table="events",condition="healthy"} 1
deltasnap_table_last_poll_timestamp_seconds{table="events"} 8640000.0
deltasnap_table_last_commit_timestamp_seconds{table="events"} 8640000.0
deltasnap_table_usual_commit_interval_seconds{table="events"} 86400.0
deltasnap_table_latest_version{table="events"} 4
deltasnap_table_stored_version{table="events"} 4
deltasnap_table_versions_behind{table="events"} 0
deltasnap_table_rows{table="events"} 600
deltasnap_table_files{table="events"} 6
deltasnap_table_size_bytes{table="events"} 6291456
deltasnap_table_growth_7d_bytes{table="events"} 5242880
deltasnap_table_growth_30d_bytes{table="events"} 4194304
deltasnap_table_small_files_ratio{table="events"} 1.0
deltasnap_table_vacuum_bytes{table="events"} 7
deltasnap_table_commits_since_checkpoint{table="events"} 5"""


def test_values_are_in_base_units(tmp_path: Path) -> None:
    found = rows(tmp_path)
    events = {**next(row for row in found if row["table"] == "events"), "growth_30d_bytes": 4 << 20}
    lines = prometheus_text(found, [events]).splitlines()
    assert [line for line in lines if not line.startswith("#")] == SAMPLES.splitlines()


def test_conditions_of_a_table_are_one_gauge_each(tmp_path: Path) -> None:
    text = prometheus_text(rows(tmp_path))
    assert 'deltasnap_table_condition{table="orders",condition="unknown"} 1\n' in text
    assert 'deltasnap_table_condition{table="orders",condition="healthy"} 0\n' in text


def test_unknown_value_has_no_sample(tmp_path: Path) -> None:
    text = prometheus_text(rows(tmp_path))
    assert 'deltasnap_table_vacuum_bytes{table="orders"}' not in text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("events", "events"),
        ('a"b', 'a\\"b'),
        ("a\\b", "a\\\\b"),
        ("a\nb", "a\\\\nb"),
        ("é", "é"),
        ("a\x1bb", "a\\\\x1bb"),
    ],
)
def test_label_is_escaped(text: str, escaped: str) -> None:
    assert label_value(text) == escaped


NOW = 100 * DAY


def rows(folder: Path) -> list[dict[str, Any]]:
    for name in ("events", "orders"):
        store_table(folder, name, [(NOW - 40 * DAY, 1), (NOW - 2 * DAY, 2), (NOW - DAY, 5), (NOW - DAY, 5), (NOW, 6)])
    store = SnapshotStore.open(None, folder)
    store.polls.write(
        "events", LastPoll(polled_at_ms=NOW, latest_version=4, checked_version=4, facts_version=4, vacuum_bytes=7)
    )
    found: list[dict[str, Any]] = store.fleet(now_ms=NOW).to_pylist()
    return found
