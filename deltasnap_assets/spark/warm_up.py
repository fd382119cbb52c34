"""`deltasnap warm-up`: creates a class-data archive, so that later sessions on this machine start faster.

It runs a session that loads the classes of a run. The JVM writes them to the archive when it ends. The archive is in
the user's cache folder, for all projects. It may be deleted at any time, and is used only with the same Java and
PySpark.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.java import check_java
from deltasnap_assets.spark.jvm_options import archive_path, base_archive_path
from deltasnap_assets.spark.session_config import session_config
from deltasnap_core import DeltaSnapError

_STRAY_SECONDS = 3600
_NEEDED_MB = 200


class WarmUpError(DeltaSnapError):
    """The archive could not be created. The message gives the reason. Sessions start without it."""


def make_archive() -> Path:
    """Create the archive for this Java and this PySpark, replacing an existing one. Return its path.

    A session that starts in the meantime uses the old archive or none. Errors: `JavaError`, `WarmUpError`.
    """
    java = check_java().path
    archive = archive_path()
    if archive is None:
        raise WarmUpError("No PySpark with jars found, neither installed nor in SPARK_HOME.")
    archive.parent.mkdir(parents=True, exist_ok=True)
    _remove_strays(archive.parent)
    free_mb = shutil.disk_usage(archive.parent).free // 10**6
    if free_mb < _NEEDED_MB:  # checked first: the JVM would fail after a minute, without the reason
        raise WarmUpError(f"Expected {_NEEDED_MB} MB free below {archive.parent} for the archive, found {free_mb} MB.")
    partial = archive.with_suffix(f".{os.getpid()}")
    try:
        base = _make_base(archive, java)
        printed = _run_workload(f"{base}-XX:ArchiveClassesAtExit={partial} -Xlog:cds=off -Xlog:cds+dynamic=off")
        if not partial.is_file():
            last = next((line for line in reversed(printed.splitlines()) if line.strip()), "no output")
            raise WarmUpError(f"The JVM did not create an archive at {partial}: {last}")
        _check(partial, java)
        partial.replace(archive)
    finally:
        partial.unlink(missing_ok=True)
    return archive


def _remove_strays(folder: Path) -> None:
    """Remove the files of killed commands, whose JVM may still have written an archive."""
    for file in folder.glob("classes-*.[0-9]*"):
        if file.stat().st_mtime < time.time() - _STRAY_SECONDS:
            file.unlink(missing_ok=True)


def _make_base(archive: Path, java: Path) -> str:
    """Create the archive of Java's own classes if this Java has none. Return the option that uses it.

    The archive of sessions contains its path, so it must not move.
    """
    base = base_archive_path(archive, java)
    if base is None:
        return ""
    partial = base.with_suffix(f".{os.getpid()}")
    command = [str(java), "-Xshare:dump", f"-XX:SharedArchiveFile={partial}", "-Xlog:cds=off", "-Xlog:cds+heap=off"]
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if result.returncode or not partial.is_file():
            raise WarmUpError(f"{java} did not create an archive of its own classes: {result.stdout.strip()[-500:]}")
        partial.replace(base)
    finally:
        partial.unlink(missing_ok=True)
    return f"-XX:SharedArchiveFile={base} "


def _check(archive: Path, java: Path) -> None:
    """Raise WarmUpError unless the JVM starts from an archive. An archive truncated by a full disk would crash it."""
    with archive.open("rb") as written:
        os.fsync(written.fileno())
    command = [str(java), f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-version"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=archive.parent)
    if result.returncode:
        raise WarmUpError(f"The archive is damaged. Check that there are {_NEEDED_MB} MB free below {archive.parent}.")


def _run_workload(java_options: str) -> str:
    config = session_config(SparkSettings(config={"spark.driver.extraJavaOptions": java_options}))
    # The JVM writes the archive after Python has ended, and holds the pipe until then. Reading to the end waits for it.
    result = subprocess.run(
        [sys.executable, "-m", "deltasnap_assets.tables.warm_up_workload", "1"],
        input=json.dumps(config),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode:
        raise WarmUpError(f"The session that loads the classes failed: {result.stdout.strip()[-2000:]}")
    return result.stdout
