from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from deltasnap_assets.spark import warm_up
from deltasnap_assets.spark.jvm_options import archive_path
from deltasnap_assets.spark.warm_up import WarmUpError, make_archive
from deltasnap_assets.tables.warm_up_workload import exercise
from tests.assets.command.test_cli import java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JVM = """\
#!/bin/sh
case "$*" in *-Xshare:dump*) file="${2#*=}"; echo own > "$file"; exit;; esac
case "$*" in *SharedArchiveFile=*) file="${1#*=}"; grep -q whole "$file" || exit 134;; esac
echo 'openjdk version "17.0.1"' >&2
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose Java starts only from a valid archive."""
    home = java_of(tmp_path, "17.0.1")
    Path(home, "bin", "java").write_text(JVM, encoding="utf-8")
    own = Path(home, "lib", "server", "classes.jsa")
    own.parent.mkdir(parents=True)
    own.touch()
    monkeypatch.setenv("JAVA_HOME", home)
    monkeypatch.setenv("DELTASNAP_JAVA", "system")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def session_that_writes(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run_workload(java_options: str) -> str:
        archive = java_options.partition("ArchiveClassesAtExit=")[2].split()[0]
        Path(archive).write_text(content, encoding="utf-8")
        return ""

    monkeypatch.setattr(warm_up, "_run_workload", run_workload)


def test_archive_is_published_atomically(monkeypatch: pytest.MonkeyPatch) -> None:
    session_that_writes("whole", monkeypatch)
    archive = make_archive()
    assert archive == archive_path()
    assert [file.name for file in archive.parent.iterdir()] == [archive.name]


def test_java_without_a_base_archive_gets_one_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jdk" / "lib" / "server" / "classes.jsa").unlink()
    given: list[str] = []

    def run_workload(java_options: str) -> str:
        given.extend(java_options.split())
        Path(given[1].partition("=")[2]).write_text("whole", encoding="utf-8")
        return ""

    monkeypatch.setattr(warm_up, "_run_workload", run_workload)
    archive = make_archive()
    base = archive.with_name(f"{archive.stem}-base.jsa")
    assert given[0] == f"-XX:SharedArchiveFile={base}"
    assert base.read_text(encoding="utf-8") == "own\n"
    assert {file.name for file in archive.parent.iterdir()} == {archive.name, base.name}


def test_java_that_creates_no_archive_of_its_classes_is_reported(tmp_path: Path) -> None:
    (tmp_path / "jdk" / "lib" / "server" / "classes.jsa").unlink()
    java = tmp_path / "jdk" / "bin" / "java"
    fails = """case "$*" in *-Xshare:dump*) echo no memory; exit 1;; esac\necho 'version "17.0.1"' >&2\n"""
    java.write_text(f"#!/bin/sh\n{fails}", encoding="utf-8")
    with pytest.raises(WarmUpError, match=r"jdk/bin/java did not create an archive of its own classes: no memory$"):
        make_archive()
    assert [*(tmp_path / "cache" / "deltasnap").iterdir()] == []


def test_truncated_archive_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    session_that_writes("whole", monkeypatch)
    archive = make_archive()
    session_that_writes("who", monkeypatch)
    with pytest.raises(WarmUpError, match="damaged"):
        make_archive()
    assert archive.read_text(encoding="utf-8") == "whole"
    assert len(list(archive.parent.iterdir())) == 1


def test_files_of_a_killed_command_are_removed_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    session_that_writes("whole", monkeypatch)
    archive = make_archive()
    stray, young = archive.with_suffix(".123"), archive.with_suffix(".456")
    stray.touch()
    young.touch()
    now = time.time()
    for file, age in ((stray, 3601), (young, 3500)):
        os.utime(file, (now - age, now - age))
    make_archive()
    assert {file.name for file in archive.parent.iterdir()} == {archive.name, young.name}


def test_jvm_without_an_archive_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "_run_workload", lambda _: "Error: no dynamic archives here\n\n")
    with pytest.raises(WarmUpError, match="no dynamic archives here"):
        make_archive()


def test_output_of_the_session_that_loads_the_classes_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = [subprocess.CompletedProcess[str]([], code, stdout=" no class data\n") for code in (0, 1)]

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        assert command == [sys.executable, "-m", "deltasnap_assets.tables.warm_up_workload", "1"]
        given = {"input": "{}", "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "check": False}
        assert options == given
        return ended.pop(0)

    monkeypatch.setattr(warm_up, "session_config", lambda _: {})
    with monkeypatch.context() as sessions:
        sessions.setattr(subprocess, "run", run)
        assert warm_up._run_workload("") == " no class data\n"
        with pytest.raises(WarmUpError, match=r"failed: no class data$"):
            warm_up._run_workload("")


def test_full_disk_is_reported_before_the_archive_is_created(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session_that_writes("whole", monkeypatch)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=199_999_999))
    with pytest.raises(WarmUpError) as raised:
        make_archive()
    folder = tmp_path / "cache" / "deltasnap"
    assert str(raised.value) == f"Expected 200 MB free below {folder} for the archive, found 199 MB."
    assert [*folder.iterdir()] == []
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=200_000_000))
    assert make_archive().is_file()


@pytest.mark.thorough
@pytest.mark.spark
def test_workload_replays_and_stores_every_kind_of_data(spark: SparkSession) -> None:
    # Four files per commit; each of the three after the checkpoint removes one.
    assert exercise(spark) == 6 * 4 - 3
