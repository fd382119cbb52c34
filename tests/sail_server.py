"""A Sail server for quick tests of DataFrame code: `python -m tests.sail_server` starts one and prints its URL.

Sail rejects clients later than PySpark 4.1 by the version of the PySpark in its process. The queries of the tests that
use this server return the same with a later client, so its process reports an accepted version.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.forks import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACCEPTED = "4.1.4"
# Sail returns a number with a unit, which later clients cannot parse.
CLIENT_SETTINGS = {"spark.sql.session.localRelationSizeLimit": str(3 << 30)}


@contextmanager
def sail_session() -> Iterator[SparkSession]:
    """Yield a session of a Sail server, which stops with the session. Needs no JVM."""
    from pyspark.sql import SparkSession

    from deltasnap_assets.settings.config import SparkSettings
    from deltasnap_assets.spark.session_config import session_config
    from tests.sail_gaps import filled_gaps

    pipe, environment = subprocess.PIPE, {"RUST_LOG": "error", **os.environ}
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=pipe, stdout=pipe, text=True) as server:
        url = server.stdout.readline().strip() if server.stdout else ""
        assert url, "the Sail server did not start; see the error above"
        config = {**session_config(SparkSettings(remote=url)), **CLIENT_SETTINGS}
        session = SparkSession.builder.config(map={**config}).getOrCreate()
        with filled_gaps():
            yield session
        session.stop()
        server.kill()


def _serve() -> None:
    import pyspark.version

    pyspark.__version__ = pyspark.version.__version__ = ACCEPTED
    from pysail.spark import SparkConnectServer

    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    _, port = server.listening_address
    print(f"sc://127.0.0.1:{port}", flush=True)
    sys.stdin.read()  # until the process of the tests ends


if __name__ == "__main__":
    _serve()
