"""No credentials in any output: every error, `repr` and log record, found by reflection."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import logging
import pkgutil
import traceback
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import deltasnap_assets
import deltasnap_core
from deltasnap_assets.settings.yaml_source import ConfigError, ConfigProblem
from deltasnap_core import Problem, ProblemKind, TableCondition, TableLog, VersionRanges, redaction, support
from deltasnap_core.errors import CorruptLogError, DeltaSnapError, LogChangedError, StorageError
from deltasnap_core.redaction import is_harmless_option, learn_options, learn_settings, learn_url, redacted
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.storage_errors import storage_errors

URL = "s3://AKIAPLANTED:pl%2Fanted-in-user-info@lake/events?sig=planted-in-query&x=1"
OPTIONS = {"key": "planted-key", "client_kwargs": {"aws_session_token": "planted-token"}, "unheard_of": "planted-other"}
PLANTED = (
    "AKIAPLANTED", "pl%2Fanted-in-user-info", "pl/anted-in-user-info", "planted-in-query", "planted-key",
    "planted-token", "planted-other", "planted-in-environment", "planted-in-spark",
)  # fmt: skip
TEXT = f"{URL} and {' '.join(PLANTED)} refused"


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_learned", {})
    monkeypatch.setenv("SOME_SECRET_ACCESS_KEY", "planted-in-environment")
    learn_url(URL)
    learn_options(OPTIONS)
    learn_settings({"spark.hadoop.fs.s3a.secret.key": "planted-in-spark", "spark.driver.memory": "2g-not-secret"})


def leaks(text: str) -> list[str]:
    return [secret for secret in PLANTED if secret in text]


def modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not found.name.endswith("__main__"):
            yield import_module(found.name)


def classes() -> Iterator[type]:
    found = {}
    for package in (deltasnap_core, deltasnap_assets):
        for module in modules(package):
            for value in vars(module).values():
                if inspect.isclass(value) and value.__module__ == module.__name__:
                    found[f"{value.__module__}.{value.__qualname__}"] = value
    yield from found.values()


def public_classes() -> Iterator[type]:
    for package in (deltasnap_core, support, deltasnap_assets):
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isclass(value) and not issubclass(value, BaseException):
                yield value


def dir_of(cls: type) -> set[str]:
    """Return what a class or its bases define, but for `object`."""
    return {name for each in cls.__mro__[:-1] for name in vars(each)}


def made(error: type[DeltaSnapError]) -> DeltaSnapError:
    """Return an error whose text values all contain the planted secret."""
    parameters = inspect.signature(error.__init__).parameters
    values: dict[str, Any] = {}
    if error is ConfigError:
        return ConfigError(file=TEXT, problems=(ConfigProblem(reason=TEXT, key=TEXT, value=TEXT),))
    for name, parameter in list(parameters.items())[1:]:
        kind = str(parameter.annotation)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if "TableCondition" in kind:
            fault = Problem.of(ProblemKind.NO_TABLE, table=TEXT, found=TEXT, advice=TEXT)
            values[name] = TableCondition(table=TEXT, faults=(fault,))
        elif "VersionRanges" in kind:
            values[name] = VersionRanges.of([1])
        elif "Problem" in kind:
            values[name] = (Problem.of_check(check=TEXT, severity="error", text=TEXT, advice=TEXT),)
        elif "int" in kind and "str" not in kind:
            values[name] = (1,) if any(each in kind for each in ("Iterable", "Sequence", "tuple")) else 1
        elif "Mapping" in kind or "dict" in kind:
            values[name] = {TEXT: TEXT}
        else:
            values[name] = (TEXT,) if "tuple" in kind or "Sequence" in kind or "Iterable" in kind else TEXT
    takes_text = any(each.kind is each.VAR_POSITIONAL for each in parameters.values())
    return error(*((TEXT,) if takes_text else ()), **values)


def test_every_error_hides_secrets() -> None:
    errors = [cls for cls in classes() if issubclass(cls, DeltaSnapError)]
    assert len(errors) > 25
    for cls in errors:
        error = made(cls)
        assert not leaks(str(error)), cls
        assert not leaks(repr(error)), cls
        assert not leaks(str(getattr(error, "reason", ""))), cls


def test_storage_error_hides_secrets_of_its_cause() -> None:
    wrapped = OSError(5, TEXT, TEXT)
    wrapped.__cause__ = KeyError(TEXT)
    with pytest.raises(StorageError) as raised, storage_errors(URL):
        raise wrapped
    assert not leaks("".join(traceback.format_exception(raised.value)))
    assert raised.value.path == redacted(URL)
    with pytest.raises(FileNotFoundError) as missing, storage_errors(URL):
        raise FileNotFoundError(TEXT)
    assert not leaks(str(missing.value))


def test_storage_message_with_credentials_in_the_bucket_name_is_hidden() -> None:
    reported = 'Parameter validation failed: Invalid bucket name "KEY:SECRET@lake"'
    assert redacted(reported) == reported
    learn_url("s3://KEY:SECRET@lake/events")
    shown = str(StorageError(path="s3://KEY:SECRET@lake/events", reason=reported))
    assert "KEY" not in shown
    assert "SECRET" not in shown


def test_every_public_repr_hides_secrets() -> None:
    seen = 0
    for cls in public_classes():
        if dataclasses.is_dataclass(cls):
            value = object.__new__(cls)
            for field in dataclasses.fields(cls):
                object.__setattr__(value, field.name, {TEXT: TEXT} if field.name == "storage_options" else TEXT)
            assert not leaks(repr(value)), cls
            seen += 1
    assert seen > 25


def test_every_public_repr_is_generated_default_or_redacted() -> None:
    for cls in public_classes():
        if dataclasses.is_dataclass(cls):
            continue  # made above
        is_plain = "__repr__" not in dir_of(cls) or issubclass(cls, (tuple, str, dict, enum.Enum))
        is_safe = "redacted(" in inspect.getsource(cls.__repr__) if inspect.isfunction(cls.__repr__) else False
        assert is_plain or is_safe, cls


def test_repr_with_a_url_hides_secrets() -> None:
    log = TableLog.for_path(URL, OPTIONS)
    store = deltasnap_core.SnapshotStore.open(None, URL, OPTIONS)
    assert not leaks(repr([log, store, log.store]))


def test_settings_hide_secrets() -> None:
    from deltasnap_assets.settings.config import Settings
    from deltasnap_assets.settings.table_settings import TableSettings

    table = TableSettings(name="events", path=URL, storage_options=OPTIONS, description=TEXT)
    assert not leaks(f"{table!r} {table}")
    assert not leaks(repr(Settings(storage=URL, storage_options=OPTIONS, tables=(table,))))


def test_options_of_a_table_are_hidden_from_then_on() -> None:
    from deltasnap_assets.settings.table_settings import TableSettings

    TableSettings(name="events", path="/events", storage_options={"key": "seen-in-settings"})
    assert redacted("seen-in-settings was refused").endswith("was refused")
    assert "seen-in-settings" not in redacted("seen-in-settings was refused")


def test_every_logger_hides_secrets(caplog: pytest.LogCaptureFixture) -> None:
    loggers = {
        value.name: value
        for package in (deltasnap_core, deltasnap_assets)
        for module in modules(package)
        for value in vars(module).values()
        if isinstance(value, logging.Logger)
    }
    assert len(loggers) > 10
    caplog.set_level(logging.DEBUG)
    for logger in loggers.values():
        caplog.clear()
        logger.setLevel(logging.DEBUG)
        logger.warning("%s %d", TEXT, 1)
        logger.warning(TEXT)
        try:
            raise ValueError(TEXT)
        except ValueError as error:
            logger.warning("%s", CorruptLogError(path=URL, reason=str(error)), exc_info=True)
        logger.setLevel(logging.NOTSET)
        assert len(caplog.records) == 3, logger
        assert not leaks(caplog.text), logger


def test_log_changed_error_shows_no_credentials() -> None:
    assert not leaks(str(LogChangedError(path=URL, file=URL, expected="a", found=TEXT)))


def test_credentials_are_registered_at_every_entry_point() -> None:
    redaction._learned.clear()
    FsspecLogStore({"secret": "planted-key"})
    TableLog.for_path("s3://me:planted-token@lake/t")
    assert redacted("planted-key planted-token") == f"{redaction.REDACTED} {redaction.REDACTED}"


@pytest.mark.parametrize(
    ("name", "value", "is_shown"),
    [
        ("endpoint_url", "http://localhost:9000", True),
        ("endpoint_url", "http://me:hunter2@localhost:9000", False),
        ("region_name", "eu-west-1", True),
        ("use_ssl", "false", True),
        ("anon", True, True),
        ("account_name", "lake", True),
        ("account_key", "abc", False),
        ("key", "abc", False),
        ("connection_string", "AccountKey=abc", False),
        ("unheard_of", "abc", False),
        ("token_endpoint", "abc", False),
    ],
)
def test_options_are_harmless_by_name_and_value(name: str, value: object, is_shown: bool) -> None:
    assert is_harmless_option(name, value) is is_shown


def test_harmless_and_short_values_of_options_are_shown() -> None:
    learn_options({"region_name": "eu-west-1", "unheard_of": "abc", "password": "xy"})
    assert redacted("abc in eu-west-1 as xy") == "abc in eu-west-1 as xy"


def test_secret_of_digits_may_be_a_number() -> None:
    learn_options({"password": 98765432, "client_kwargs": {"token": 55556666}, "retries": 11112222, "max_keys": 100})
    assert redacted("98765432 55556666") == f"{redaction.REDACTED} {redaction.REDACTED}"
    assert redacted("11112222 100") == "11112222 100"


def test_short_secret_is_hidden_only_as_a_word() -> None:
    learn_options({"password": "abc"})
    assert redacted("abc: abcd and (abc)") == f"{redaction.REDACTED}: abcd and ({redaction.REDACTED})"
