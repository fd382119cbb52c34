"""The text format of Prometheus."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deltasnap_assets.command.views.fleet.prometheus import label_value, prometheus_text
from tests.assets.command.views.fleet.prometheus_builders import rows

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
