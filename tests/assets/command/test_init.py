"""The configuration that `deltasnap init` generates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deltasnap_assets.command.init import FoundTable, configuration, find_tables, secret_options
from deltasnap_assets.command.terminal import prepare_terminal
from deltasnap_assets.settings.loading import load_settings, read_settings
from deltasnap_core.errors import StorageError
from deltasnap_core.protocol.log_files.file_names import checksum_file
from tests.assets.command.cli_builders import ROOT
from tests.builders import metadata, protocol, write_log
from tests.core.scan.catalog_tables import write_catalog_managed


@pytest.mark.parametrize("out", ["deltasnap.yaml", "conf/deltasnap.yaml", "link/deltasnap.yaml", "../deltasnap.yaml"])
@pytest.mark.parametrize("path", ["lake/events", "../lake/events", "/lake/events", "s3://lake/events"])
def test_paths_are_relative_to_the_file(out: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    (here / "conf").mkdir(parents=True)
    (tmp_path / "far" / "away").mkdir(parents=True)
    (here / "link").symlink_to(tmp_path / "far" / "away")
    monkeypatch.chdir(here)
    file = Path(out)
    file.write_text(configuration([FoundTable(name="events", path=path)], {}, file.parent), encoding="utf-8")
    (table,) = read_settings(file, {}).tables
    is_relative = path.startswith(("lake", ".."))
    assert (str(Path(table.path).resolve()) if is_relative else table.path) == (
        str((here / path).resolve()) if is_relative else path
    )


def test_existing_folder_with_brackets_is_no_pattern(tmp_path: Path) -> None:
    for name in ("[ab] events", "a events"):
        write_log(tmp_path / name, {0: [protocol(), metadata()]})
    assert [table.path for table in find_tables([f"{tmp_path}/[ab] events"], {})] == [f"{tmp_path}/[ab] events"]
    (none,) = find_tables([f"{tmp_path}/[bc]* events"], {})
    assert none.problem == "No folder that this pattern matches is a Delta table. Correct the pattern."
    assert [table.path for table in find_tables([f"{tmp_path}/[a]* events"], {})] == [f"{tmp_path}/a events"]


def test_paths_that_a_relative_pattern_matches_are_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "lake" / "events", {0: [protocol(), metadata()]})
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    assert [table.path for table in find_tables(["../lake/*"], {})] == ["../lake/events"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (
            "nothing",
            "No Delta table at file://{here}/nothing: there is no such folder. Correct the path. If the table "
            "was dropped, remove it from the configuration.",
        ),
        (
            "lake",
            "No Delta table at file://{here}/lake: the folder has no _delta_log. For the tables in it, use 'lake/*'.",
        ),
        (
            "empty",
            "No Delta table at file://{here}/empty: the folder has no _delta_log. Correct the path, or "
            "create the table.",
        ),
        (
            "lake/events/_delta_log",
            "No Delta table at file://{here}/lake/events/_delta_log: the path names a log folder. Use the table's "
            "folder, without _delta_log.",
        ),
    ],
    ids=["missing", "folder of tables", "empty folder", "log folder"],
)
def test_what_is_at_a_path_is_named(path: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "lake" / "events", {0: [protocol(), metadata()]})
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    assert [table.problem for table in find_tables([path], {})] == [problem.format(here=tmp_path)]


def test_path_that_cannot_be_read_has_advice_and_names_no_file_of_the_log() -> None:
    (table,) = find_tables(["foo://lake/events"], {})
    assert table.problem == (
        "The storage failed at foo://lake/events/_delta_log: Protocol not known: foo. Correct the scheme of the path "
        "or the storage options, or install the package of the filesystem."
    )


def test_path_without_access_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(path: str) -> None:
        raise StorageError(path=path, reason="Permission denied")

    write_log(tmp_path, {0: [protocol(), metadata()]})
    for name in ("open_local", "list_local_from"):
        monkeypatch.setattr(f"deltasnap_core.storage.fsspec_log_store.{name}", lambda path, *_: refuse(path))
    prepare_terminal()
    (table,) = find_tables([str(tmp_path)], {})
    assert str(table.problem).startswith("Access to file://")
    assert capsys.readouterr().err == ""


def test_found_table_that_needs_an_unknown_feature_has_that_problem(tmp_path: Path) -> None:
    unknown = protocol(3, 7, readerFeatures=["fromTheFuture"], writerFeatures=["fromTheFuture"])
    write_log(tmp_path, {0: [unknown, metadata()]})
    (table,) = find_tables([str(tmp_path)], {})
    assert table.found is None
    assert "fromTheFuture" in str(table.problem)


def test_found_table_is_described_by_its_log_though_the_checksum_differs(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata(partitionColumns=["id"])]})
    counts = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1}
    wrong = {**counts, **protocol(99, 99), "metadata": metadata(partitionColumns=["day"])["metaData"]}
    (log / checksum_file(0)).write_text(json.dumps(wrong))
    (table,) = find_tables([str(tmp_path)], {})
    assert (table.problem, table.found) == (None, "version 0 of 2023-11-14T22:13:20+00:00, by id")


def test_found_table_of_a_catalog_is_described_by_its_published_commits(tmp_path: Path) -> None:
    write_catalog_managed(tmp_path / "table")
    (table,) = find_tables([str(tmp_path / "table")], {})
    assert str(table.found).startswith("version 0 of 2023")
    assert str(table.found).endswith("; a catalog manages the table: only published commits count")


@pytest.mark.spark  # a separate program
def test_path_is_the_same_folder_in_a_locale_without_utf_8(tmp_path: Path) -> None:
    write_log(tmp_path / "events_ü", {0: [protocol(), metadata()]})
    script = (
        "import sys\n"
        "from deltasnap_assets.command.cli import run\n"
        "sys.argv = ['deltasnap', 'init', 'events_*']\n"
        "try: run()\n"
        "except SystemExit as end: assert not end.code\n"
        "from deltasnap_assets.settings.loading import load_settings\n"
        "from deltasnap_core import TableLog\n"
        "(table,) = load_settings().tables\n"
        "print('version', TableLog.for_path(table.path).latest().version)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == b"version 0"
    (table,) = load_settings(tmp_path / "deltasnap.yaml").tables
    assert Path(table.path) == tmp_path / "events_ü"


def test_first_table_has_the_optional_keys_as_comments() -> None:
    text = configuration([FoundTable(name="events", path="/e"), FoundTable(name="clicks", path="/c")], {})
    assert text.count("# versions: all") == 1
    assert text.index("name: events") < text.index("# versions: all") < text.index("name: clicks")


@pytest.mark.parametrize("name", ["${HOME}", "$${HOME}", "a$$${HOME}${HOME}", "$HOME"])
def test_folder_with_the_name_of_a_variable_is_read_back(name: str, tmp_path: Path) -> None:
    file = tmp_path / "deltasnap.yaml"
    file.write_text(configuration([FoundTable(name="t", path=str(tmp_path / name))], {}), encoding="utf-8")
    assert [table.path for table in load_settings(file).tables] == [str(tmp_path / name)]


def test_configuration_of_found_tables_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "lake" / "events", {0: [protocol(), metadata(partitionColumns=["day", "id"])]})
    for name in ("a/Events", "b/--", "c/__", "d/events"):
        write_log(tmp_path / name, {0: [protocol(), metadata()], 1: []})
    places = ["lake/*", *(f"{tmp_path}/{each}" for each in ("a/Events", "b/--", "c/__", "d/events"))]
    found = find_tables(places, {})
    assert [each.name for each in found] == ["events", "Events_2", "table", "table_2", "events_3"]
    assert configuration(found[:2], {}) == (
        f"""\
# The tables that deltasnap follows. All keys: docs/configuration.md.
storage: .deltasnap/store         # the snapshot store: a folder, relative to this file, or a URL
# spark:
#   master: local[*]              # or remote: sc://host:15002, a Spark Connect server
tables:
  - name: events  # version 0 of 2023-11-14T22:13:20+00:00, by day, id
    path: lake/events
    # versions: all               # all | latest | {{since: 100}}
    # poll_seconds: 30            # interval of polls for new commits
    # refresh: H * * * *          # cron, H: a minute for each table; null: never
  - name: Events_2  # version 1 of 2023-11-14T22:14:20+00:00
    path: {tmp_path}/a/Events
"""
    )


def test_options_with_secrets_are_named_and_the_others_are_not() -> None:
    options = {"key": "region", "endpoint_url": "http://localhost", "anon": False, "region": "https://me:pw@host"}
    assert secret_options(options) == ["key", "region"]


def test_texts_of_options_are_quoted_and_secrets_are_variables() -> None:
    options = {"region": "eu-1", "use_ssl": True, "secret": "abcdefgh", "port": 22, "password": 12345678}
    text = configuration([FoundTable(name="events", path="s3://b/e")], options)
    line = '    storage_options: {region: "eu-1", use_ssl: true, secret: "${DELTASNAP_SECRET}", '
    line += 'port: !!int "22", password: !!int "${DELTASNAP_PASSWORD}"}'
    assert line in text.splitlines()
