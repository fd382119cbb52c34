"""What every test may ask for: one Spark session a process, a clock that stands still, the golden tables."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import hypothesis
import pytest

from deltasnap_assets.spark.java import JavaError, use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.flaky_s3 import FlakyS3

# After every date in the golden tables, so that each of their tombstones is as old as a retention can make it.
NOW_MS = 1_900_000_000_000


# A machine at work is no fault of the code: no test is timed.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


class FixedClock:
    """A clock in milliseconds since the epoch that moves only when told to."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms


def pytest_configure() -> None:
    """Start every session of the tests on the Java that the app would use; a machine may have none."""
    with suppress(JavaError):
        use_java()


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run all the tests in a process a core, each file's in one; those asked for by path, here. `-n` says otherwise."""
    option = config.option
    if "PYTEST_XDIST_WORKER" in os.environ:  # it is one of those processes
        return
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and option.numprocesses is None and not option.usepdb:
        option.numprocesses, option.dist = "logical", "loadfile"


def pytest_collection_finish() -> None:
    """Leave what has been imported out of every garbage collection, and collect less often: a run is short."""
    gc.freeze()
    gc.set_threshold(100_000)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


QUICK_SESSION: dict[str, str | bool | int | float | None] = {
    "spark.app.name": "deltasnap-tests",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # a test run is over before C2 pays
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.log.level": "ERROR",
}
"""Settings of a session for many tiny queries."""

# To compile a query takes longer than to run it, where a thousand differ.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the process, set up for many tiny queries."""
    from pyspark.sql import SparkSession

    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    builder = SparkSession.builder.master("local[2]").config(map=QUICK_SESSION)
    session = builder.config("spark.sql.warehouse.dir", warehouse).getOrCreate()
    yield session
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.stop()


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Interpret queries, as INTERPRETED says."""
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    yield
    for name in INTERPRETED:
        spark.conf.unset(name)


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, Any]]:
    """Options of the bucket `s3://lake` on the one S3 server of the run; one, for moto's buckets are a process's."""
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
def flaky_s3(s3_options: dict[str, Any]) -> Iterator[tuple[FlakyS3, dict[str, Any]]]:
    """A server of the same bucket that refuses when told to, and options that reach it."""
    from tests.flaky_s3 import serve

    with serve() as (flaky, url):
        client = {**s3_options["client_kwargs"], "endpoint_url": url}
        # botocore's own tries off: that the core tries again is what is tested.
        config = {"retries": {"max_attempts": 0}, "read_timeout": 1}
        yield flaky, {**s3_options, "client_kwargs": client, "config_kwargs": config}


@pytest.fixture(scope="session")
def golden() -> Path:
    """The folder of the golden tables: DELTASNAP_GOLDEN, or the one beside the checkout."""
    folder = golden_folder()
    if folder is None:
        pytest.skip("no golden tables: set DELTASNAP_GOLDEN to their folder")
    return folder


def golden_folder() -> Path | None:
    """Give the folder of the golden tables, None where it is absent; absent in CI is an error."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "golden"
    folder = Path(os.environ.get("DELTASNAP_GOLDEN", beside))
    if (folder / "expected").is_dir():
        return folder
    if os.environ.get("CI"):
        raise FileNotFoundError(f"expected the golden tables at {folder}")
    return None
