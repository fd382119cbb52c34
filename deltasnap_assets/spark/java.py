"""Is there a Java that Spark can start on? Asked before Spark is, whose own answer is a page of traceback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from deltasnap_core.errors import DeltaSnapError

MINIMUM_JAVA = 17
_HELP = (
    f"Install Java {MINIMUM_JAVA} or later (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
    "macOS: brew install openjdk@17) or set JAVA_HOME to one."
)


class JavaError(DeltaSnapError):
    """There is no Java here that Spark can start on; the message is one line that says what to install."""


def check_java() -> int:
    """The major version of the Java that Spark would start: that of JAVA_HOME, else the one on PATH.

    Raises JavaError where there is none or it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
    if java is None:
        place = f"JAVA_HOME is {home}, which has no bin/java" if home else "none on PATH, and JAVA_HOME is not set"
        raise JavaError(f"No Java found: {place}. {_HELP}")
    major = java_major(java)
    if major is None:
        raise JavaError(f"{java} does not tell its version. {_HELP}")
    if major < MINIMUM_JAVA:
        raise JavaError(f"Java {major} at {java} is too old. {_HELP}")
    return major


def java_major(java: str) -> int | None:
    """The major version that `java -version` prints ("1.8.0_292" is 8), None where it prints none."""
    try:
        result = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', result.stderr + result.stdout)
    return int(found.group(1)) if found else None
