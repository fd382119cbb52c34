"""Is there a Java that Spark can start on? Asked before Spark is, whose own answer is a page of traceback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from deltasnap_core import DeltaSnapError

MINIMUM_JAVA = 17
_HELP = (
    f"Install Java {MINIMUM_JAVA} or later (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or set JAVA_HOME to one."
)


class JavaError(DeltaSnapError):
    """There is no Java here that Spark can start on; the message is one line that says what to install."""


def check_java() -> int:
    """Return the major version of the Java that Spark would start.

    Errors: JavaError where there is none or it is older than 17.
    """
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        place = f"JAVA_HOME is {home}, which has no bin/java" if home else "none on PATH, and JAVA_HOME is not set"
        raise JavaError(f"No Java found: {place}. {_HELP}")
    major = java_major(java)
    if major is None:
        raise JavaError(f"{java} does not tell its version. {_HELP}")
    if major < MINIMUM_JAVA:
        raise JavaError(f"Java {major} at {java} is too old. {_HELP}")
    return major


def find_java(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the Java that Spark would start: that of JAVA_HOME, else the one on PATH. None: there is none."""
    home = environment.get("JAVA_HOME")
    found = shutil.which(str(Path(home, "bin", "java")) if home else "java", path=environment.get("PATH"))
    return None if found is None else Path(found).resolve()


def java_major(java: Path) -> int | None:
    """Return the major version that `java -version` prints ("1.8.0_292" is 8); None where it prints none."""
    try:
        result = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    return int(found.group(1)) if found else None
