"""JVM options for a fast start of a session in this process: quick compilation, and a class-data archive if it exists.

Most of the start of Spark is loading classes and compiling code that runs once. The archive, made by `deltasnap
warm-up`, holds preprocessed classes, and only the first compiler (C1) runs. Pure: PySpark is located, not loaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from importlib.metadata import version as distribution_version
from importlib.util import find_spec
from pathlib import Path

from deltasnap_assets.spark.java import find_java

# In a young run the second compiler (C2) uses as much CPU as the work itself. Without it, warm code runs a fifth
# slower, which costs less in a run of a few minutes.
QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
# Reading logs needs a small heap. There, parallel garbage collection threads only take CPU from the workers.
SMALL_HEAP_COLLECTOR = "-XX:+UseSerialGC"
# Parquet is read into arrays of several MiB. In the small regions of a small heap each one is a humongous object, whose
# collection takes a fifth of the time of a load. Other collectors ignore this option.
_LARGE_REGIONS = "-XX:G1HeapRegionSize=16m"
# The JVM checks an archive and ignores one that does not fit. This option suppresses the warning.
_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def quick_start_options(*, small_heap: bool, chosen: str) -> tuple[str, ...]:
    """Return the options for a session that runs completely in the driver.

    small_heap: whether one thread can collect the heap quickly. chosen: the user's options. They come later on the
    JVM's command line and win. The JVM does not accept two garbage collectors.
    """
    collector = (SMALL_HEAP_COLLECTOR,) if small_heap and not _names_collector(chosen) else ()
    return (*QUICK_COMPILER, *collector, *archive_options(chosen=chosen))


def long_lived_options(*, chosen: str) -> tuple[str, ...]:
    """Return the options for a driver that serves many runs: its JVM keeps the default compilers and collectors."""
    return (_LARGE_REGIONS, *archive_options(chosen=chosen))


def archive_options(*, chosen: str) -> tuple[str, ...]:
    """Return the options that use the class-data archive; empty if it does not exist or the user chose another one."""
    if "-XX:SharedArchiveFile" in chosen or "-XX:ArchiveClassesAtExit" in chosen:
        return ()
    archive = archive_path()
    if archive is None or not archive.is_file() or " " in str(archive):
        return ()
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET)


def archive_path() -> Path | None:
    """Return the path of the archive for this Java and this PySpark; it may not exist. None: one of both is missing.

    Its name is a digest of everything the archive depends on: a different Java or PySpark, or a different path of
    either, has a different archive.
    """
    environment = os.environ
    java, spark_home = find_java(environment), find_spark_home(environment)
    if java is None or spark_home is None:
        return None
    facts = (
        *_java_facts(java.path),
        distribution_version("pyspark"),
        str(spark_home),
        str((spark_home / "jars").stat().st_mtime_ns),
        environment.get("SPARK_CONF_DIR", ""),
        environment.get("HADOOP_CONF_DIR", ""),
        *QUICK_COMPILER,
        SMALL_HEAP_COLLECTOR,
    )
    name = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:20]
    return cache_folder(environment) / f"classes-{name}.jsa"


def base_archive_path(archive: Path, java: Path) -> Path | None:
    """Return the path of the archive of Java's own classes, on which the archive of sessions builds.

    None: Java includes one. The runtime of the wheel does not.
    """
    if (java.parent.parent / "lib" / "server" / "classes.jsa").is_file():
        return None
    return archive.with_name(f"{archive.stem}-base.jsa")


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of this user's archives, shared by all projects."""
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "deltasnap"


def find_spark_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the Spark home that PySpark uses: SPARK_HOME, else PySpark's own folder. None: there is no PySpark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    home = Path(environment.get("SPARK_HOME") or Path(spec.origin).parent)
    return home if (home / "jars").is_dir() else None


def _names_collector(options: str) -> bool:
    return any(option.startswith("-XX:+Use") and option.endswith("GC") for option in options.split())


def _java_facts(java: Path) -> tuple[str, ...]:
    """Return the facts that identify a Java without starting it: its path, its file, its release notes."""
    stat = java.stat()
    release = java.parent.parent / "release"
    notes = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    return (str(java), str(stat.st_size), str(stat.st_mtime_ns), notes)
