"""Dagster's UI in a real browser, with one server for all tests."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from deltasnap_assets.command.local.local_instance import DEFAULT_HOME

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
pytest.importorskip("deltalake")
pytest.importorskip("dagster_webserver")
pytest.importorskip("playwright")

from tests.browser.dagster_ui import (  # noqa: E402
    CHROMIUM,
    TABLE,
    add_commits,
    browser,
    choose_partitions,
    materialize,
    open_asset,
    open_lineage,
    served,
    show_plots,
)
from tests.driver_bases import use_driver_bases  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

VERSIONS = 17
MAX_POLLS = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which(CHROMIUM) is None and not os.environ.get("CI"):
        pytest.skip("no chromium here: apt-get install chromium")
    folder = tmp_path_factory.mktemp("browser")
    with pytest.MonkeyPatch.context() as patched:
        use_driver_bases(patched)  # no JVM, except that of the UI
        materialize(folder, VERSIONS)
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    with served(folder) as url, browser(url) as page:
        yield page


def test_lineage_connects_the_table_with_its_assets(page: Page) -> None:
    open_lineage(page)
    for name in ("delta_log", "log_segment", "reconstructed_state", "computed_state", "all_files", "tombstones"):
        assert page.get_by_text(name, exact=True).first.is_visible()
    page.get_by_text(f"{VERSIONS} partitions").first.wait_for()


def test_page_of_the_table_shows_health_and_files(page: Page) -> None:
    open_asset(page, "delta_log")
    page.get_by_text("tombstones and").wait_for()
    picture = page.get_by_role("img", name="bytes by partition")
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 100


def test_plots_are_ordered_by_importance(page: Page) -> None:
    open_asset(page, "computed_state")
    assert show_plots(page) == ["num_of_files", "num_records", "size_in_bytes", "size_per_file", "tombstones"]


def test_warning_of_a_check_has_advice(page: Page) -> None:
    open_asset(page, "tombstones", "checks", checkDetail="tombstone_ratio")
    page.get_by_text("What to do: Lower").wait_for()


def test_range_is_materialized_through_the_dialog(page: Page, folder: Path) -> None:
    open_asset(page, "log_segment")
    choose_partitions(page, ["3", "4", "5"])
    page.get_by_role("button", name=re.compile("^Launch (backfill|1 run)$")).click()
    with dg.DagsterInstance.from_config(str(folder / DEFAULT_HOME)) as instance:
        for _ in range(MAX_POLLS):
            if times_materialized(instance, "log_segment", "4") > 1:
                return
            page.wait_for_timeout(1000)
    pytest.fail(f"the range is not materialized after {MAX_POLLS} polls")


def times_materialized(instance: dg.DagsterInstance, name: str, partition: str) -> int:
    filters = dg.AssetRecordsFilter(asset_key=dg.AssetKey([TABLE, name]), asset_partitions=[partition])
    return len(instance.fetch_materializations(filters, limit=5).records)


def test_new_commit_is_materialized_automatically(page: Page, folder: Path) -> None:
    add_commits(folder, VERSIONS + 1)
    for _ in range(MAX_POLLS):
        open_asset(page, "delta_log")
        page.get_by_text("latest_version").wait_for()
        page.wait_for_timeout(1000)
        if page.get_by_text(f"version {VERSIONS}: WRITE").count():
            return
    pytest.fail(f"version {VERSIONS} has not arrived after {MAX_POLLS} polls")
