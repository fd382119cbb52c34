"""Conversion of user input to URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltasnap_core.storage.urls import (
    is_hidden,
    is_local,
    is_url,
    join_url,
    local_path,
    scheme_names,
    split_url,
    to_url,
)


@pytest.mark.parametrize(
    ("typed", "url"),
    [
        ("/data/events", "file:///data/events"),
        ("/data/events/", "file:///data/events"),
        ("/data//a/../events", "file:///data/events"),
        ("/data/50%25 #1?", "file:///data/50%25 #1?"),
        ("/data/a:b/c", "file:///data/a:b/c"),
        (Path("/data/events"), "file:///data/events"),
        ("/", "file:///"),
        ("file:/data/events", "file:///data/events"),
        ("file:///data/events/", "file:///data/events"),
        ("file://localhost/data", "file:///data"),
        ("FILE:///data", "file:///data"),
        ("s3://lake/events/", "s3://lake/events"),
        ("s3a://lake/events", "s3://lake/events"),
        ("s3n://lake/a b", "s3://lake/a b"),
        ("gcs://lake/a", "gs://lake/a"),
        ("local:///data", "file:///data"),
        ("abfss://c@account.dfs.core.windows.net/t", "abfss://c@account.dfs.core.windows.net/t"),
        ("memory://events", "memory://events"),
        ("memory://", "memory://"),
        ("s3://lake/backup~", "s3://lake/backup~"),
    ],
)
def test_to_url(typed: str | Path, url: str) -> None:
    assert to_url(typed) == url
    assert to_url(url) == url


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://lake/x", True),
        ("file:/data/a", True),
        ("FILE:///data", True),
        ("simplecache::s3://lake/x", True),
        ("/data/a", False),
        ("data/a:/b", False),
        ("C:/data", False),
        ("a:b", False),
        ("~/a", False),
    ],
)
def test_is_url(text: str, expected: bool) -> None:
    assert is_url(text) is expected


def test_to_url_keeps_a_chain_of_protocols() -> None:
    assert to_url("simplecache::s3://lake/x/") == "simplecache::s3://lake/x"


def test_to_url_of_a_relative_path_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/ada")
    assert to_url("events") == f"file://{Path.cwd()}/events"
    assert to_url("~/events") == "file:///home/ada/events"


def test_to_url_of_nothing_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        to_url("")


@pytest.mark.parametrize("folder", ["file:///data", "file:///", "memory://", "s3://lake/events"])
def test_join_and_split(folder: str) -> None:
    assert split_url(join_url(folder, "00.json")) == (folder, "00.json")


def test_local_path() -> None:
    assert (is_local("file:///a b"), local_path("file:///a b")) == (True, "/a b")
    assert not is_local("s3://file:/x")


def test_schemes_of_one_storage_begin_with_the_one_of_to_url() -> None:
    assert scheme_names("s3") == ("s3", "s3a", "s3n")
    assert scheme_names("abfss") == ("abfss",)


def test_spark_ignores_hidden_names() -> None:
    hidden = [name for name in ("_a", ".a", "a._COPYING_", "_a=1", "a") if is_hidden(f"file:///t/{name}")]
    assert hidden == ["_a", ".a", "a._COPYING_"]
