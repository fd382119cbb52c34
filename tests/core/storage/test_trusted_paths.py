"""URLs from user input, and the files of a log that may be opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from deltasnap_core.storage.trusted_paths import resolve_path
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

LOCAL, S3 = "file:///lake/events", "s3://lake/events"


@pytest.mark.parametrize(
    ("root", "path", "url"),
    [
        (LOCAL, "part-0.parquet", f"{LOCAL}/part-0.parquet"),
        (LOCAL, "day=a%20b/part%25.parquet", f"{LOCAL}/day=a b/part%.parquet"),
        (LOCAL, "a%252e%252e/b", f"{LOCAL}/a%2e%2e/b"),
        (LOCAL, "a+b.parquet", f"{LOCAL}/a+b.parquet"),
        (LOCAL, "a:b.parquet", f"{LOCAL}/a:b.parquet"),
        (LOCAL, "a..b/...parquet", f"{LOCAL}/a..b/...parquet"),
        (LOCAL, "/lake/events/x", f"{LOCAL}/x"),
        (LOCAL, "file:/lake/events/x", f"{LOCAL}/x"),
        (LOCAL, "file:///lake/events/x", f"{LOCAL}/x"),
        (LOCAL, "FILE://localhost/lake/events/x", f"{LOCAL}/x"),
        (LOCAL, "\U0010ffff", f"{LOCAL}/\U0010ffff"),
        (S3, "x", f"{S3}/x"),
        (S3, "/events/x", f"{S3}/x"),
        (S3, "s3a://lake/events/x", f"{S3}/x"),
    ],
)
def test_path_inside_the_table_is_the_url_of_its_file(root: str, path: str, url: str) -> None:
    assert resolve_path(root, path) == url


@pytest.mark.parametrize(
    ("root", "path"),
    [
        (LOCAL, ""),
        (LOCAL, ".."),
        (LOCAL, "../orders/x"),
        (LOCAL, "a/../../orders/x"),
        (LOCAL, "a/../x"),
        (LOCAL, "%2e%2e/orders/x"),
        (LOCAL, "..%2forders/x"),
        (LOCAL, "..\\orders\\x"),
        (LOCAL, "..%5corders"),
        (LOCAL, "/lake/events/../orders/x"),
        (LOCAL, "/lake/events"),
        (LOCAL, "/lake/eventsful/x"),
        (LOCAL, "/etc/passwd"),
        (LOCAL, "//lake/events/x"),
        (LOCAL, "file:///etc/passwd"),
        (LOCAL, "file:/lake/events/../../etc/passwd"),
        (LOCAL, "file://host/lake/events/x"),
        (LOCAL, "file%3A///etc/passwd"),
        (LOCAL, "http://169.254.169.254/latest"),
        (LOCAL, "HTTPS://host/x"),
        (LOCAL, "s3://lake/events/x"),
        (LOCAL, "simplecache::file:///lake/events/x"),
        (LOCAL, "a::b"),
        (LOCAL, "x\0"),
        (LOCAL, "x%00"),
        (LOCAL, "%ff"),
        (LOCAL, "\ud800"),
        (S3, "s3://other/events/x"),
        (S3, "/x"),
        (S3, "file:///lake/events/x"),
        (S3, "s3://lake/events/../orders/x"),
    ],
)
def test_path_outside_the_roots_is_rejected(root: str, path: str) -> None:
    with pytest.raises(ValueError, match="so the file is not opened") as error:
        resolve_path(root, path)
    assert str(error.value).isprintable()


def test_relative_path_starts_at_its_base_and_may_not_leave_the_root() -> None:
    base = f"{LOCAL}/_delta_log/_sidecars"
    assert resolve_path(LOCAL, "x.parquet", base=base) == f"{base}/x.parquet"
    with pytest.raises(ValueError, match="so the file is not opened"):
        resolve_path(LOCAL, "../x.parquet", base=base)


def test_absolute_path_below_an_allowed_root_is_accepted() -> None:
    allowed = ("/lake/source", "s3a://lake/source/")
    for path in ("/lake/source/x", "s3://lake/source/x"):
        assert resolve_path(LOCAL, path, allowed_roots=allowed).endswith("lake/source/x")
    for path in ("/lake/sources/x", "s3://lake/x", "/lake/source/../x"):
        with pytest.raises(ValueError, match="so the file is not opened"):
            resolve_path(LOCAL, path, allowed_roots=allowed)


@pytest.mark.parametrize(
    ("root", "path", "url"),
    [
        (LOCAL, "../source/x", "file:///lake/source/x"),
        (LOCAL, "a/../../source//b/./x", "file:///lake/source/b/x"),
        (LOCAL, "%2e%2e/source/x%20y", "file:///lake/source/x y"),
        (LOCAL, "/lake/events/../source/x", "file:///lake/source/x"),
        (LOCAL, "file:/lake/source/a/../x", "file:///lake/source/x"),
        (S3, "../source/x", "s3://lake/source/x"),
        (S3, "s3a://lake/events/../source/x", "s3://lake/source/x"),
    ],
)
def test_path_with_parents_is_resolved_if_an_allowed_root_has_its_target(root: str, path: str, url: str) -> None:
    allowed = ("/lake/source", "s3://lake/source")
    assert resolve_path(root, path, allowed_roots=allowed) == url


@pytest.mark.parametrize(
    ("root", "path"),
    [
        (LOCAL, "../source/../x"),
        (LOCAL, "../source"),
        (LOCAL, "../sources/x"),
        (LOCAL, "a/../x"),
        (LOCAL, "..\\source\\x"),
        (LOCAL, "../source/..\\x"),
        (LOCAL, "../../../lake/source/x"),
        (LOCAL, "a/..%2f..%2f..%2f..%2flake/source/x"),
        (S3, "../../lake/source/x"),
        (S3, "s3://other/../lake/source/x"),
    ],
)
def test_path_with_parents_that_leaves_the_allowed_roots_is_rejected(root: str, path: str) -> None:
    with pytest.raises(ValueError, match="so the file is not opened"):
        resolve_path(root, path, allowed_roots=("/lake/source", "s3://lake/source"))


@pytest.mark.parametrize(
    "allowed",
    [
        "file:///my%20lake/a%25b",
        "file:/my%20lake/a%25b/",
        "/my lake/a%b",
        "/my%20lake/a%25b",
        "file:///x/../my%20lake/./a%25b",
    ],
)
def test_allowed_root_may_be_encoded_as_in_the_log(allowed: str) -> None:
    path = "file:///my%20lake/a%25b/x%20y"
    assert resolve_path(LOCAL, path, allowed_roots=[allowed]) == "file:///my lake/a%b/x y"


def test_allowed_root_with_a_literal_percent_sign_is_allowed_as_it_is() -> None:
    path = "/my%2520lake/x"
    assert resolve_path(LOCAL, path, allowed_roots=["/my%20lake"]) == "file:///my%20lake/x"


@pytest.mark.parametrize("allowed", ["/lake/a%2f..", "/lake/%2e%2e/etc", "file:///lake/%2e%2e", "/lake%2fsource%00"])
def test_decoding_an_allowed_root_leads_to_no_other_folder(allowed: str) -> None:
    for path in ("/etc/x", "/lake/x", "/x"):
        with pytest.raises(ValueError, match="so the file is not opened"):
            resolve_path(LOCAL, path, allowed_roots=[allowed])


@given(st.lists(st.sampled_from(["..", ".", "", "a", "source", "%2e%2e", "..\\"]), min_size=1))
def test_what_is_opened_is_always_below_a_trusted_folder(parts: list[str]) -> None:
    try:
        url = resolve_path(LOCAL, "/".join(parts), allowed_roots=["/lake/source"])
    except ValueError:
        return
    assert url.startswith((f"{LOCAL}/", "file:///lake/source/"))
    assert ".." not in url.split("/")


def test_error_shows_neither_credentials_nor_control_characters() -> None:
    with pytest.raises(ValueError, match="so the file is not opened") as error:
        resolve_path(LOCAL, "http://user:pass@host/\x1b[31m?sig=secret" + "x" * 10_000)
    assert "pass" not in str(error.value)
    assert "secret" not in str(error.value)
    assert "\x1b" not in str(error.value)
    assert len(str(error.value)) < 600


def test_long_path_is_truncated_at_the_end() -> None:
    with pytest.raises(ValueError, match="so the file is not opened") as raised:
        resolve_path("file:///lake/events", "../" + "a" * 1000)
    assert str(raised.value) == f"the path '../{'a' * 196}... leaves its folder through '..', so the file is not opened"


def test_error_shows_the_first_200_characters_of_a_path() -> None:
    path = "../".ljust(198, "x")
    for each, shown in ((path, f"the path '{path}' "), (f"{path}x", f"the path '{path}x... ")):
        with pytest.raises(ValueError, match="so the file is not opened") as error:
            resolve_path(LOCAL, each)
        assert str(error.value).startswith(shown)


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
