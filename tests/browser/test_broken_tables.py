"""Broken tables in Dagster's UI: the fault first, then the numbers of the last good version."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
pytest.importorskip("deltalake")
pytest.importorskip("dagster_webserver")
pytest.importorskip("playwright")


from tests.browser.broken_tables import make_broken_tables  # noqa: E402
from tests.browser.dagster_ui import CHROMIUM, browser, served, show_plots  # noqa: E402
from tests.driver_bases import use_driver_bases  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which(CHROMIUM) is None and not os.environ.get("CI"):
        pytest.skip("no chromium here: apt-get install chromium")
    folder = tmp_path_factory.mktemp("broken")
    with pytest.MonkeyPatch.context() as patched:
        use_driver_bases(patched)  # no JVM, except that of the UI
        make_broken_tables(folder)
    return folder


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Page]:
    with served(folder) as url, browser(url) as page:
        page.set_viewport_size({"width": 1280, "height": 1400})
        yield page


def _open(page: Page, table: str, name: str, view: str = "overview", **query: str) -> None:
    more = "".join(f"&{key}={value}" for key, value in query.items())
    page.goto(f"/assets/{table}/{name}?view={view}{more}")


def _picture(page: Page, name: str) -> None:
    """Save a screenshot if DELTASNAP_PICTURES names a folder."""
    if folder := os.environ.get("DELTASNAP_PICTURES"):
        page.wait_for_timeout(2000)
        page.screenshot(path=Path(folder) / f"{name}.png")


@pytest.mark.parametrize(
    ("table", "sentence", "last_good"),
    [
        ("footer", "The checkpoint of version 7 cannot be read", None),
        ("gap", "The commit of version 6 is missing", 5),
        ("garbage", "Version 6 cannot be read", 5),
        ("feature", "needs the reader features madeUp", 7),
        ("dropped", "there is no such folder", 3),
    ],
)
def test_broken_table_page_starts_with_the_fault(page: Page, table: str, sentence: str, last_good: int | None) -> None:
    _open(page, table, "delta_log")
    page.get_by_text(sentence).first.wait_for()
    _picture(page, f"{table}-page")
    if last_good is not None:
        page.get_by_text(f"version {last_good}, the last good one").first.wait_for()
    page.get_by_text("num_of_files").first.wait_for()
    assert not page.get_by_text(re.compile("^OK:")).count()


@pytest.mark.parametrize(
    ("table", "check", "sentence"),
    [
        ("footer", "readable_checkpoint", "Other readers that use this checkpoint fail"),
        ("gap", "contiguous_log", "Of versions 0 to 7, 2 cannot be loaded: 6 to 7"),
        ("garbage", "contiguous_log", "Version 6 cannot be read"),
        ("feature", "readable_protocol", "needs the reader features madeUp"),
    ],
)
def test_check_of_a_broken_table_reports_the_reason(page: Page, table: str, check: str, sentence: str) -> None:
    _open(page, table, "delta_log", "checks", checkDetail=check)
    page.get_by_text(sentence).first.wait_for()
    _picture(page, f"{table}-check")
    assert not page.get_by_text("Execution failed").count()


def test_checks_that_cannot_be_evaluated_are_skipped(page: Page) -> None:
    _open(page, "feature", "all_files", "checks", checkDetail="small_files")
    page.get_by_text("Skipped").first.wait_for()
    _picture(page, "feature-skipped")
    assert not page.get_by_text("Execution failed").count()


def test_plots_of_the_table_exist(page: Page) -> None:
    _open(page, "gap", "delta_log")
    page.get_by_text("num_of_files").first.wait_for()
    assert "num_of_files" in show_plots(page)
    _picture(page, "gap-plots")


def test_fleet_lists_broken_tables_first(page: Page) -> None:
    page.goto("/assets/fleet?view=overview")
    page.get_by_role("link", name="dropped").first.wait_for()
    _picture(page, "fleet")
    links = page.locator("a[href$='/delta_log']").all_inner_texts()
    assert len(links) > 2
    assert "healthy" not in links[:3]
