"""JVM options under which a session of this process starts fast: quick compilation, and a class-data archive if made.

Starting Spark is mostly loading classes and compiling what runs once. The archive (`deltasnap warm-up` makes it) holds
the classes as the JVM wants them; the first compiler alone compiles them. Pure: PySpark is found, not loaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from importlib.metadata import version as distribution_version
from importlib.util import find_spec
from pathlib import Path

from deltasnap_assets.spark.java import find_java

# The second compiler takes as much of the processor as the work itself while a run is young. What the first one makes
# runs a fifth slower once everything is warm, which a run of some minutes never earns back.
QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
# On the small heaps that reading logs needs, threads that collect garbage only take time from those that work.
SMALL_HEAP_COLLECTOR = "-XX:+UseSerialGC"
# Parquet is read into arrays of MiBs. In the small regions of a small heap each of them is humongous, and to collect
# those takes a fifth of a load. Other collectors take no notice of this.
_LARGE_REGIONS = "-XX:G1HeapRegionSize=16m"
# The JVM checks an archive itself and does without one that does not fit. Nobody wants to be told.
_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def quick_start_options(*, small_heap: bool, chosen: str = "") -> tuple[str, ...]:
    """Return the options for a session whose whole Spark is in the driver.

    small_heap: whether its heap is of a size that one thread clears quickly. chosen: options that the user chose, which
    come later on the JVM's command line and win; of garbage collectors it accepts no two.
    """
    collector = (SMALL_HEAP_COLLECTOR,) if small_heap and not _names_collector(chosen) else ()
    return (*QUICK_COMPILER, *collector, *archive_options(chosen=chosen))


def long_lived_options(*, chosen: str = "") -> tuple[str, ...]:
    """Return the options for a driver that serves many runs: its JVM compiles and collects by its own defaults."""
    return (_LARGE_REGIONS, *archive_options(chosen=chosen))


def archive_options(environment: Mapping[str, str] = os.environ, *, chosen: str = "") -> tuple[str, ...]:
    """Return the options that use the class-data archive; none where it is not made, or the user chose another."""
    if "-XX:SharedArchiveFile" in chosen or "-XX:ArchiveClassesAtExit" in chosen:
        return ()
    archive = archive_path(environment)
    if archive is None or not archive.is_file() or " " in str(archive):
        return ()
    return (f"-XX:SharedArchiveFile={archive}", *_QUIET)


def archive_path(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the archive of this Java and this PySpark lies, made or not; None where one of them is missing.

    Its name is a digest of all that must be the same for it to fit: another Java, another PySpark, another place of
    either, have other archives.
    """
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
    """Return where the archive of Java's own classes lies, on which an archive of sessions builds.

    None: Java has one beside it. The runtime of the wheel has none.
    """
    if (java.parent.parent / "lib" / "server" / "classes.jsa").is_file():
        return None
    return archive.with_name(f"{archive.stem}-base.jsa")


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of this user's archives, whatever the project."""
    cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "deltasnap"


def find_spark_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the Spark that PySpark would start: SPARK_HOME, else PySpark's own folder. None: there is no PySpark."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    home = Path(environment.get("SPARK_HOME") or Path(spec.origin).parent)
    return home if (home / "jars").is_dir() else None


def _names_collector(options: str) -> bool:
    return any(option.startswith("-XX:+Use") and option.endswith("GC") for option in options.split())


def _java_facts(java: Path) -> tuple[str, ...]:
    """Return what tells one Java from another without starting it: its place, its file, its notes on its release."""
    stat = java.stat()
    release = java.parent.parent / "release"
    notes = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else ""
    return (str(java), str(stat.st_size), str(stat.st_mtime_ns), notes)
