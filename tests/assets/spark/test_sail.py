"""`spark.remote: sail` without a server: what is reported if it is missing, and the pins of its environment."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark import sail
from deltasnap_assets.spark.connect_check import RemoteError
from deltasnap_assets.spark.sail import running_sail_url, sail_url, sail_version
from deltasnap_assets.spark.session_config import session_config

ROOT = Path(__file__).resolve().parents[3]


def test_missing_sail_is_one_line_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(sail, "version", missing)
    monkeypatch.setattr(sail, "_urls", {})
    for start in (sail_url, lambda: session_config(SparkSettings(remote="sail"))):
        with pytest.raises(RemoteError, match="with the extra sail"):
            start()
    assert running_sail_url() is None


def test_pyspark_that_sail_rejects_is_one_line_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pysail": "0.7.2", "pyspark": "4.3.0"}
    monkeypatch.setattr(sail, "version", versions.__getitem__)
    with pytest.raises(RemoteError, match=r"Sail 0\.7\.2 rejects PySpark 4\.3\.0: install PySpark 4\.1"):
        sail_version()
    for accepted in ("4.0.5", "4.1.4"):
        versions["pyspark"] = accepted
        assert sail_version() == "0.7.2"


def test_sail_has_one_server_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def start() -> str:
        started.append(f"sc://127.0.0.1:{len(started)}")
        return started[-1]

    monkeypatch.setattr(sail, "_start", start)
    monkeypatch.setattr(sail, "_urls", {-1: "sc://of.the.parent:1"})
    assert sail_url() == sail_url() == running_sail_url() == "sc://127.0.0.1:0"
    config = session_config(SparkSettings(remote="sail", config={"spark.driver.memory": "2g", "a.b": 1}))
    assert (config["spark.remote"], config["a.b"]) == ("sc://127.0.0.1:0", "1")
    assert "spark.driver.memory" not in config


def test_server_of_sail_listens_on_a_free_port_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []

    class Server:
        listening_address = ("127.0.0.1", 50051)

        def __init__(self, *address: object) -> None:
            self.address = address

        def start(self, *, background: bool) -> None:
            started.append((self.address, background))

    monkeypatch.setitem(sys.modules, "pysail.spark", SimpleNamespace(SparkConnectServer=Server))
    monkeypatch.setattr(sail, "sail_version", lambda: "0.7.2")
    monkeypatch.setattr(sail, "_urls", {})
    monkeypatch.setattr(sail, "_running", [])
    for level, expected in ((None, "error"), ("debug", "debug")):
        monkeypatch.setenv("RUST_LOG", level or "")
        if level is None:
            monkeypatch.delenv("RUST_LOG")
        monkeypatch.setattr(sail, "_urls", {})
        assert sail_url() == "sc://127.0.0.1:50051"
        assert os.environ["RUST_LOG"] == expected
    assert started == [(("127.0.0.1", 0), True)] * 2
    assert len(sail._running) == 2  # a server stops when nothing refers to it


def test_pins_of_sail_match_all_others_except_pyspark() -> None:
    pins, of_sail = (_pins(name) for name in ("constraints.txt", "constraints-sail.txt"))
    other = {line for line in of_sail - pins if not line.startswith(("pysail==", "pyspark==4.1."))}
    assert other == set()


def _pins(name: str) -> set[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return {line for line in lines if not line.startswith("#")}
