"""The store and the followed tables are beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.loading import load_settings
from deltasnap_assets.settings.store_place import check_place
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import DeltaSnapError

REFUSED = {
    "in a table": ("/lake/ev/store", "/lake/ev"),
    "at a table": ("/lake/ev", "/lake/ev/"),
    "around a table": ("/lake", "/lake/ev"),
    "in a table, with another spelling": ("file:/lake/x/../ev/store", "/lake/ev"),
    "in a table of a bucket": ("s3a://lake/ev/store", "s3://lake/ev/"),
    "at the root of the bucket of a table": ("s3://lake", "s3://lake/ev"),
}
ACCEPTED = {
    "beside a table": ("/lake/store", "/lake/ev"),
    "beside a table whose name it begins with": ("/lake/ev_store", "/lake/ev"),
    "in another bucket": ("s3://store/ev", "s3://lake/ev"),
    "on another storage": ("/lake", "s3://lake/ev"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_store_is_refused(case: str) -> None:
    store, table = REFUSED[case]
    with pytest.raises(DeltaSnapError, match="Set `storage` to a folder outside the tables"):
        check_place(store, {}, [(table, {})])


@pytest.mark.parametrize("case", ACCEPTED)
def test_store_is_accepted(case: str) -> None:
    store, table = ACCEPTED[case]
    check_place(store, {}, [("/other", {}), (table, {})])


def test_buckets_of_two_servers_may_have_the_same_name() -> None:
    minio = {"client_kwargs": {"endpoint_url": "http://minio:9000"}}
    check_place("s3://lake", {"key": "k"}, [("s3://lake/ev", minio)])
    with pytest.raises(DeltaSnapError, match="Set `storage` to a folder outside"):
        check_place("s3://lake", {"endpoint_url": "http://minio:9000"}, [("s3://lake/ev", minio)])


@pytest.mark.parametrize("linked", ["store", "table"])
def test_links_are_followed(linked: str, tmp_path: Path) -> None:
    real = tmp_path / "ev"
    (real / "inside").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real if linked == "table" else real / "inside")
    places = {"store": (tmp_path / "link", real), "table": (real / "inside", tmp_path / "link")}
    store, table = places[linked]
    with pytest.raises(DeltaSnapError, match="Set `storage` to a folder outside"):
        check_place(str(store), {}, [(str(table), {})])


def test_configuration_and_definitions_with_a_misplaced_store_are_refused(tmp_path: Path) -> None:
    (tmp_path / "deltasnap.yaml").write_text("storage: lake\ntables: [{name: ev, path: lake/ev}]")
    with pytest.raises(DeltaSnapError, match="pruning could delete the table's files"):
        load_settings(folder=tmp_path, environment={})
    with pytest.raises(DeltaSnapError, match="VACUUM would delete the store's files"):
        build_definitions(Settings(storage="/lake/ev/store", tables=(TableSettings(name="ev", path="/lake/ev"),)))
