"""`deltasnap warm-up`: the class-data archive that lets every later session on this machine start in a fraction.

A session of its own loads the classes that a run loads; its JVM writes them down as it ends. The archive lies among the
user's caches, for all projects; it may be deleted at any time, and is never used with another Java or PySpark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from deltasnap_assets.config import SparkSettings
from deltasnap_assets.java import check_java
from deltasnap_assets.jvm_options import archive_path
from deltasnap_assets.session_config import session_config
from deltasnap_core.errors import DeltaSnapError


class WarmUpError(DeltaSnapError):
    """The archive could not be made; the message says why. Sessions start without it."""


def make_archive() -> Path:
    """Make the archive of this Java and this PySpark, again where there is one; gives its path.

    A session that starts meanwhile uses the one before, or none. Errors: `JavaError`, `WarmUpError`.
    """
    check_java()
    archive = archive_path()
    if archive is None:
        raise WarmUpError("Expected PySpark with its jars beside it, or in SPARK_HOME: found none.")
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(f".{os.getpid()}")
    try:
        printed = _train(f"-XX:ArchiveClassesAtExit={partial} -Xlog:cds=off -Xlog:cds+dynamic=off")
        if not partial.is_file():
            last = next((line for line in reversed(printed.splitlines()) if line.strip()), "nothing was printed")
            raise WarmUpError(f"The JVM made no archive at {partial}: {last}")
        partial.replace(archive)
    finally:
        partial.unlink(missing_ok=True)
    return archive


def _train(java_options: str) -> str:
    config = session_config(SparkSettings(config={"spark.driver.extraJavaOptions": java_options}))
    # The JVM writes the archive after Python has ended. It holds the pipe until then: reading to the end waits for it.
    result = subprocess.run(
        [sys.executable, "-m", "deltasnap_assets.training"],
        input=json.dumps(config),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode:
        raise WarmUpError(f"The session that loads the classes failed: {result.stdout.strip()[-2000:]}")
    return result.stdout
