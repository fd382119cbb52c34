from __future__ import annotations

import copy
import pickle

import pytest

from deltasnap_core import errors
from deltasnap_core.errors import (
    ActionNotFoundError,
    CatalogError,
    CheckpointMismatchError,
    CorruptLogError,
    CorruptStoreError,
    DataFileError,
    DataFileNotFoundError,
    DataPathError,
    DeltaSnapError,
    DeltaTableNotFoundError,
    LogChangedError,
    MissingPackageError,
    NoFilesystemError,
    PredicateError,
    ProtectedVersionError,
    RepairRefusedError,
    RowChangesError,
    SparkRequiredError,
    StorageError,
    StoreChangedError,
    StoredVersionNotFoundError,
    TimestampNotFoundError,
    UnsupportedProtocolError,
    UnsupportedServerError,
    UnsupportedSettingError,
    UnsupportedStoreError,
    UnsupportedWriterError,
    VersionGapError,
    VersionNotFoundError,
    one_line,
)

EVERY_ERROR = [
    DeltaTableNotFoundError(path="file:///t"),
    VersionNotFoundError(path="file:///t", version=9, earliest=2, latest=7),
    TimestampNotFoundError(path="file:///t", timestamp_ms=0, earliest_ms=1, latest_ms=None),
    VersionGapError(path="file:///t", version=9, missing=(1, 2, 3, 7)),
    ActionNotFoundError(action="metadata", version=3, path="file:///t"),
    UnsupportedProtocolError(path="file:///t", version=1, features=("x",), min_reader_version=3),
    CorruptLogError(path="file:///t/_delta_log/1.json", reason="not JSON", line=2),
    StoredVersionNotFoundError(store="file:///s", table="events", version=4),
    CorruptStoreError(path="file:///s/m.json", reason="not JSON"),
    StorageError(path="file:///t/_delta_log", reason="Permission denied"),
    UnsupportedWriterError(path="file:///t", version=1, features=("x",), min_writer_version=7),
    ProtectedVersionError(path="file:///t", version=1, protected_before=4),
    CheckpointMismatchError(path="file:///t", version=1, differences=("files",)),
    RepairRefusedError(path="file:///t", reason="why", advice="Restore it."),
    NoFilesystemError(path="foo://t", reason="no such scheme"),
    CatalogError(table="main.silver.events", reason="no such table"),
    LogChangedError(path="file:///t", file="1.json", expected="1 byte", found="2 bytes"),
    DataPathError(path="../a", table="file:///t", reason="outside"),
    DataFileNotFoundError(path="file:///t/a", table="file:///t", version=1),
    DataFileError(path=None, table="file:///t", version=1, reason="no Parquet file"),
    RowChangesError(path="file:///t", version=1, reason="gone"),
    PredicateError(predicate="a =", position=2, reason="missing"),
    StoreChangedError(store="file:///s", table="events", reason="gone"),
    UnsupportedStoreError(path="file:///s", found=4, supported=3),
    SparkRequiredError(reason="rows"),
    MissingPackageError(package="polars", work="to_polars"),
    UnsupportedServerError(work="read rows", reason="no column"),
    UnsupportedSettingError(setting="a=true", reason="no column"),
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_error_survives_pickle_and_copy_with_its_data(error: DeltaSnapError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert vars(other) == vars(error)
        assert str(other) == str(error)


@pytest.mark.parametrize(
    ("predicate", "position", "shown"),
    [
        ("a =", 2, "a =\n  ^"),
        ("a = 1\nand b", 6, "a = 1\nand b\n^"),
        ("a =\nand b", 2, "a =\n  ^\nand b"),
        ("a = 1\n  or", 8, "a = 1\n  or\n  ^"),
    ],
)
def test_predicate_is_shown_with_a_caret_below_the_position(predicate: str, position: int, shown: str) -> None:
    assert shown in str(PredicateError(predicate=predicate, position=position, reason="missing"))


@pytest.mark.parametrize(
    ("length", "position", "shown", "caret"),
    [
        (2000, 1999, (0, 2000), 1999),
        (2001, 0, (0, 2000), 0),
        (2001, 999, (0, 2000), 999),
        (3001, 1500, (500, 2500), 1000),
        (3001, 3000, (2000, 3001), 1000),
        (2001, None, (0, 2000), None),
        (2000, None, (0, 2000), None),
    ],
)
def test_long_predicate_is_shown_around_the_position(
    length: int, position: int | None, shown: tuple[int, int], caret: int | None
) -> None:
    predicate = "".join(chr(ord("a") + number % 26) for number in range(length))
    _, *lines = str(PredicateError(predicate=predicate, position=position, reason="missing")).split("\n")
    assert lines == [predicate[slice(*shown)], *([] if caret is None else [f"{' ' * caret}^"])]


def test_every_error_is_pickled_and_copied() -> None:
    known = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, DeltaSnapError)}
    assert known - {type(error) for error in EVERY_ERROR} == {DeltaSnapError}


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_message_of_an_error_is_a_sentence_with_its_facts(error: DeltaSnapError) -> None:
    text = str(error)
    known = [str(value) for value in vars(error).values() if isinstance(value, str | int)]
    assert text[:1].isupper() or text.startswith(("file:", "foo:"))
    assert sum(value in text for value in known) >= min(2, len(known)), text


def test_missing_action_names_the_table_and_what_to_do() -> None:
    assert str(ActionNotFoundError(action="protocol", version=12, path="file:///t")) == (
        "Version 12 of the Delta table at file:///t cannot be read: its log has no protocol action. "
        "Restore the first commit, or the checkpoint, from a backup of the log."
    )


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ((4,), "version 4,"),
        ((3, 1, 2, 7), "versions 1 to 3, 7,"),
        (tuple(range(0, 40, 2)), "versions 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, ...,"),
    ],
    ids=["one", "ranges", "many"],
)
def test_version_gap_names_the_missing_versions(missing: tuple[int, ...], text: str) -> None:
    assert text in str(VersionGapError(path="file:///t", version=50, missing=missing))


def test_not_found_errors_list_available_versions() -> None:
    assert "Available: 2 to 7." in str(VersionNotFoundError(path="p", version=9, earliest=2, latest=7))
    assert "Available: unknown." in str(VersionNotFoundError(path="p", version=9))
    far = TimestampNotFoundError(path="p", timestamp_ms=2**62, earliest_ms=0, latest_ms=1_500)
    assert f"{2**62} ms since the epoch" in str(far)
    assert "1970-01-01T00:00:00.000+00:00 to 1970-01-01T00:00:01.500+00:00" in str(far)
    last = TimestampNotFoundError(path="p", timestamp_ms=253_402_300_799_999)
    assert "9999-12-31T23:59:59.999+00:00" in str(last)


def test_stored_version_or_table_that_is_missing_is_named() -> None:
    one, none = (StoredVersionNotFoundError(store="s", table="t", version=version) for version in (0, None))
    assert str(one) == "The snapshot store at s has no version 0 of table t."
    assert str(none) == "The snapshot store at s has no version of table t."


def test_advice_follows_the_problem_of_a_damaged_store() -> None:
    error = CorruptStoreError(path="p", reason="not JSON", advice="Move it away.")
    assert str(error) == "Corrupt snapshot store file p: not JSON. Move it away."
    assert (error.reason, error.advice) == ("not JSON", "Move it away.")


def test_text_of_an_error_fits_on_one_line() -> None:
    assert one_line(ValueError(" a\n  b\t\tc ")) == "a b c"


def test_unsupported_protocol_names_features_or_reader_version() -> None:
    by_feature = UnsupportedProtocolError(path="p", version=1, features=("a", "b"), min_reader_version=3)
    by_version = UnsupportedProtocolError(path="p", version=1, features=(), min_reader_version=4)
    assert "the reader features a, b" in str(by_feature)
    assert "reader version 4" in str(by_version)


def test_corrupt_log_names_file_and_line() -> None:
    assert str(CorruptLogError(path="p/1.json", reason="r", line=2)) == "Corrupt Delta log file p/1.json, line 2: r"
    assert str(CorruptLogError(path="p/1.json", reason="r")) == "Corrupt Delta log file p/1.json: r"


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ({}, "needs the file a, which is missing: VACUUM or a user may have removed it."),
        ({"missing": 1}, "needs the file a, which is missing: VACUUM or a user may have removed it."),
        ({"missing": 2}, "needs the file a and 1 more, which are missing: VACUUM or a user may have removed them."),
    ],
)
def test_missing_data_files_are_counted(missing: dict[str, int], text: str) -> None:
    error = DataFileNotFoundError(path="a", table="t", version=3, **missing)
    assert str(error) == f"Version 3 of the Delta table at t {text}"
