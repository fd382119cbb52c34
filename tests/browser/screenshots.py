"""`python -m tests.browser.screenshots FOLDER`: takes the screenshots for the documentation in Dagster's UI."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

from tests.browser.broken_tables import make_broken_tables
from tests.browser.dagster_ui import browser, materialize, open_asset, open_lineage, served, show_plots

VERSIONS = 48
_MARGIN = 12


def main() -> None:
    """Write pictures of the demo table and of broken tables into a folder."""
    pictures = Path(sys.argv[1])
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        materialize(Path(folder), VERSIONS)
        with served(Path(folder)) as url, browser(url) as page:
            _take(page, pictures)
    with tempfile.TemporaryDirectory() as folder:
        make_broken_tables(Path(folder))
        with served(Path(folder)) as url, browser(url) as page:
            _take_broken(page, pictures)


def _take(page: Page, pictures: Path) -> None:
    open_lineage(page)
    page.get_by_text("Hide navigation").click()
    _settle(page)
    page.screenshot(path=pictures / "lineage.png", clip={"x": 56, "y": 150, "width": 1224, "height": 520})
    page.set_viewport_size({"width": 1280, "height": 1800})
    open_asset(page, "delta_log")
    page.get_by_role("img", name="bytes by partition").wait_for()
    _metadata(page, pictures / "table.png", until="operations")
    open_asset(page, "computed_state")
    show_plots(page)
    _metadata(page, pictures / "plots.png", until="tombstones")
    page.set_viewport_size({"width": 1280, "height": 620})
    open_asset(page, "tombstones", "checks", checkDetail="tombstone_ratio")
    page.get_by_text("What to do").wait_for()
    _settle(page)
    page.screenshot(path=pictures / "check.png", clip={"x": 56, "y": 0, "width": 1224, "height": 620})


def _take_broken(page: Page, pictures: Path) -> None:
    page.set_viewport_size({"width": 1920, "height": 900})
    for name, address in (
        ("broken-table", "/assets/gap/delta_log?view=overview"),
        ("broken-checkpoint", "/assets/footer/delta_log?view=checks&checkDetail=readable_checkpoint"),
        ("fleet", "/assets/fleet?view=overview"),
    ):
        page.goto(address)
        page.get_by_text("What to do" if "check" in address else "health").first.wait_for()
        page.get_by_text("Metadata", exact=True).first.scroll_into_view_if_needed()
        _settle(page)
        page.screenshot(path=pictures / f"{name}.png", clip={"x": 56, "y": 0, "width": 1864, "height": 900})


def _metadata(page: Page, picture: Path, *, until: str) -> None:
    """Take a picture of an asset's page, from the heading of its metadata to above some text."""
    _settle(page)
    box = page.get_by_text("Metadata", exact=True).first.bounding_box()
    end = page.get_by_text(until, exact=True).last.bounding_box()
    assert box is not None
    assert end is not None
    top, bottom = box["y"] - _MARGIN, end["y"] - _MARGIN
    page.screenshot(path=picture, clip={"x": box["x"] - 45, "y": top, "width": 830, "height": bottom - top})


def _settle(page: Page) -> None:
    """Wait until animations have ended."""
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(1500)


if __name__ == "__main__":
    main()
