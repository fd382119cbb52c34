"""Fixtures of all tests: one Spark session per process, a fixed clock, the golden tables."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fsspec
import hypothesis
import pytest

from deltasnap_assets.spark.java import JavaError, use_java
from deltasnap_core import redaction

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.flaky_s3 import FlakyS3
    from tests.unity_server import UnityServer

# Later than any date in the golden tables, so that every tombstone is past any retention.
NOW_MS = 1_900_000_000_000

# Otherwise, each process that the tests start compiles the project again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests may create rows in Python, which Spark then reads with the first `python3` on the path, of any version.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

_MARKS = "DELTASNAP_TEST_MARKS"
"""The environment variable that gives the processes of a test run its marks."""

# Tests have no time limits, because machines may be busy. Fuzzers try many more examples.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=15)
hypothesis.settings.load_profile("untimed")


class FixedClock:
    """A clock in milliseconds since the epoch that moves only on request."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms


def pytest_configure(config: pytest.Config) -> None:
    """Use the app's Java for all sessions of the tests; the machine may have none."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # it does not get options that were set after parsing
        config.option.markexpr = os.environ.get(_MARKS, config.option.markexpr)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a script: tests send it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with suppress(JavaError):
        use_java()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run the tests without the thorough ones, each file in one of several processes; `-n` overrides.

    `-m` with the word `thorough` selects thorough tests. `-m "not spark"` leaves out the slow ones, too. Tests selected
    by path run in this process, all of them. With `-n`, those that finish first take tests of others.
    """
    option = config.option
    if "PYTEST_XDIST_WORKER" in os.environ:  # this is one of those processes
        return
    if option.dist == "no" and option.numprocesses is not None:
        option.dist = "worksteal"
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        if "thorough" not in option.markexpr:
            is_quick = "not spark" in option.markexpr and "slow" not in option.markexpr
            left_out = "not thorough and not slow" if is_quick else "not thorough"
            option.markexpr = f"({option.markexpr}) and {left_out}" if option.markexpr else left_out
        os.environ[_MARKS] = option.markexpr
        if option.numprocesses is None and not option.usepdb:
            # One fills a core: with Spark, its JVM compiles while Python runs. Each takes up to 3 GB.
            option.numprocesses = min(os.cpu_count() or 1, 8)
            option.dist, option.loadscopereorder = "loadfile", False


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with Spark and those about all code first: they take longest, and must not begin when others end."""
    long = {item.path for item in items if item.get_closest_marker("spark") or "spark" in _fixtures_of(item)}
    items.sort(key=lambda item: item.path not in long and item.path.parent != Path(__file__).parent)


def _fixtures_of(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


def pytest_collectstart() -> None:
    """Collect no garbage while modules are imported."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude imported objects from garbage collection, and collect less often: a test run is short."""
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The local time zone is New York, whose clocks skip 2:00 to 3:00 on 8 March 2026."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


QUICK_SESSION: dict[str, str | bool | int | float | None] = {
    "spark.app.name": "deltasnap-tests",
    "spark.driver.memory": "2g",
    # One thread collects garbage: those of several sessions would compete for the cores.
    # A test run ends before C2 pays off. Without it the JVM reserves 48 MiB for code, which thousands of queries fill.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m",
    # Each aggregation and each broadcast allocates a page, by default of 32 MiB.
    "spark.buffer.pageSize": "256k",
    # Spark's records of past queries, with their plans, fill the heap.
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    # Planning is most of the time of a tiny query. Servers, clusters and `compiled` plan adaptively.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "ERROR",
    # Compiling a query takes longer than running it, if a thousand queries differ.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Filters that follow from others take long to infer, and change no result.
    "spark.sql.constraintPropagation.enabled": "false",
    # Stricter than the defaults: no SQL may need a reserved word as a name.
    "spark.sql.ansi.enforceReservedKeywords": "true",
}
"""Settings of a session for many tiny queries. They are interpreted: see the fixture `compiled`."""


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The only session of the process: of Spark for many tiny queries, or with `-m "not spark"` of Sail."""
    from pyspark.sql import SparkSession

    if "not spark" in (request.config.option.markexpr or ""):
        from tests.sail_server import sail_session

        with sail_session() as session, pytest.MonkeyPatch.context() as patched:
            patched.setattr(SparkSession.Builder, "getOrCreate", lambda _: session)
            yield session
        return

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    builder = SparkSession.builder.master("local[2]").config(map=QUICK_SESSION)
    session = builder.config("spark.sql.warehouse.dir", warehouse).getOrCreate()
    with pytest.MonkeyPatch.context() as patched:
        # Code under test would change its settings, such as the number of partitions, for all later tests.
        patched.setattr(SparkSession.Builder, "getOrCreate", lambda _: session)
        yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()


@pytest.fixture(autouse=True)
def _quick_session_first(request: pytest.FixtureRequest) -> None:
    """Start the session of the tests before code under test starts one, whose settings all later tests would have."""
    marks = {mark.name for mark in request.node.iter_markers()}
    if "spark" in marks and "thorough" not in marks:
        request.getfixturevalue("spark")


@pytest.fixture(autouse=True)
def _forget_secrets() -> Iterator[None]:
    """Forget the secrets of a test, so that the texts of the next one are not redacted."""
    before = dict(redaction._learned)
    yield
    redaction._learned.clear()
    redaction._learned.update(before)


@pytest.fixture(scope="module")
def compiled(spark: SparkSession) -> Iterator[None]:
    """Compile queries and plan adaptively, as Spark does by default.

    For tests of expressions: both modes must give the same result.
    """
    defaults = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
    }
    before = {name: spark.conf.get(name) or "" for name in defaults}
    for name, value in defaults.items():
        spark.conf.set(name, value)
    yield
    for name, kept in before.items():
        spark.conf.set(name, kept)


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, Any]]:
    """Return options of the bucket `s3://lake` on the run's only S3 server: moto's buckets are per process."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    endpoint = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "eu-west-1"}
    options = {"key": "testing", "secret": "testing", "client_kwargs": endpoint}
    fsspec.filesystem("s3", **options).mkdir("lake")
    yield options
    server.stop()


@pytest.fixture
def glue_options(s3_options: dict[str, Any]) -> dict[str, Any]:
    """Return options of boto3 for Glue on the run's S3 server."""
    return {**s3_options["client_kwargs"], "aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


@pytest.fixture
def glue_database(glue_options: dict[str, Any]) -> Iterator[str]:
    """Yield the name of a new database of Glue."""
    import boto3

    name, client = f"bronze_{uuid4().hex[:8]}", boto3.client("glue", **glue_options)
    client.create_database(DatabaseInput={"Name": name})
    yield name
    client.delete_database(Name=name)


@pytest.fixture
def unity() -> Iterator[UnityServer]:
    """Yield a server of Unity Catalog's API, without tables."""
    from tests.unity_server import serve_unity

    with serve_unity() as server:
        yield server


@pytest.fixture
def flaky_s3(s3_options: dict[str, Any]) -> Iterator[tuple[FlakyS3, dict[str, Any]]]:
    """Yield a server of the same bucket that fails on request, and options to access it."""
    from tests.flaky_s3 import serve

    with serve() as (flaky, url):
        client = {**s3_options["client_kwargs"], "endpoint_url": url}
        # Without botocore's own retries, because the test is about the core's retries.
        config = {"retries": {"max_attempts": 0}, "read_timeout": 1}
        yield flaky, {**s3_options, "client_kwargs": client, "config_kwargs": config}


@pytest.fixture(scope="session")
def golden() -> Path:
    """Return the folder of the golden tables: DELTASNAP_GOLDEN, or the one beside the checkout."""
    folder = golden_folder()
    if folder is None:
        pytest.skip("no golden tables: set DELTASNAP_GOLDEN to their folder")
    return folder


def golden_folder() -> Path | None:
    """Return the folder of the golden tables; None if it is missing. A missing folder is an error in CI."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "golden"
    folder = Path(os.environ.get("DELTASNAP_GOLDEN", beside))
    if (folder / "expected").is_dir():
        return folder
    if os.environ.get("CI"):
        raise FileNotFoundError(f"expected the golden tables at {folder}")
    return None
