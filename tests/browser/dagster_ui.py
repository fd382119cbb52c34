"""Dagster's UI on the demo table, in a real browser."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
from playwright.sync_api import Page, sync_playwright

from deltasnap_assets.command.local.local_instance import DAGSTER_YAML, DEFAULT_HOME
from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.demo.demo_table import grow
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.loading import load_settings

ROOT = Path(__file__).resolve().parents[2]
TABLE = "events"
CHROMIUM = "chromium"
# In CI the browser runs as root and without a network, which it would otherwise look for at every start.
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_CONFIGURATION = f"""\
spark: {{master: "local[1]"}}
tables:
  - name: {TABLE}
    path: data/{TABLE}
    poll_seconds: 2
    description: What visitors of a small shop did
    owners: [team:shop]
    tags: {{domain: web}}
"""
_PATIENCE_SECONDS = 300


def add_commits(folder: Path, versions: int) -> None:
    """Grow the table of a folder to `versions` versions."""
    for _ in grow(folder / "data" / TABLE, versions):
        pass


def materialize(folder: Path, versions: int) -> None:
    """Write a configuration and the demo table into a folder, and materialize its versions in this process."""
    (folder / "deltasnap.yaml").write_text(_CONFIGURATION, encoding="utf-8")
    add_commits(folder, versions)
    home = folder / DEFAULT_HOME
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(DAGSTER_YAML, encoding="utf-8")
    settings = load_settings(folder=folder, environment={})
    with dg.DagsterInstance.from_config(str(home)) as instance:
        refresh_table(build_definitions(settings), settings, settings.tables[0], instance, log_level="ERROR")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run `deltasnap ui` in a folder. Yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in ("DELTASNAP_CONFIG", "DAGSTER_HOME"):
        env.pop(name, None)
    script = f"from deltasnap_assets.command.cli import app; app(['ui', '--port', '{port}'])"
    with (folder / "ui.log").open("wb") as log:
        ui = subprocess.Popen([sys.executable, "-c", script], cwd=folder, env=env, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, ui)
        yield url
    finally:
        ui.send_signal(signal.SIGINT)
        ui.wait(_PATIENCE_SECONDS)


def _wait_for(url: str, ui: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and ui.poll() is None:
        try:
            urllib.request.urlopen(f"{url}/server_info", timeout=5).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError(f"no answer at {url}")


@contextmanager
def browser(url: str) -> Iterator[Page]:
    """Open a browser on the UI at an address. Yields its only page."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which(CHROMIUM), args=_FLAGS)
        page = chromium.new_page(base_url=url, viewport={"width": 1280, "height": 800})
        page.set_default_timeout(_PATIENCE_SECONDS * 1000)
        yield page
        chromium.close()


def open_asset(page: Page, name: str, view: str = "overview", **query: str) -> None:
    """Open the page of one of the table's assets."""
    more = "".join(f"&{key}={value}" for key, value in query.items())
    page.goto(f"/assets/{TABLE}/{name}?view={view}{more}")


def show_plots(page: Page) -> list[str]:
    """Open the plots of an asset's page. Return their titles, in the order shown."""
    page.get_by_role("button", name="Plots").click()
    page.locator("canvas").first.wait_for()
    return page.locator("canvas").locator("xpath=../../..").all_inner_texts()


def choose_partitions(page: Page, keys: list[str]) -> None:
    """Open the dialog that materializes the current asset, and choose partitions in it."""
    page.get_by_role("button", name="Materialize").first.click()
    page.get_by_text("Select a partition").click()
    for key in keys:
        page.locator(f'[data-tooltip="{key}"]').last.click()
    page.get_by_text("Launch runs to materialize").click()  # closes the list


def open_lineage(page: Page) -> None:
    """Open the graph of the table's assets."""
    page.goto(f"/locations/deltasnap_assets.definitions/asset-groups/{TABLE}/lineage")
    page.get_by_text("tombstones").first.wait_for()
