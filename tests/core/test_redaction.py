from __future__ import annotations

import traceback

import pytest

from deltasnap_core.errors import CorruptLogError, DeltaTableNotFoundError, NoFilesystemError, StorageError
from deltasnap_core.redaction import hide_secrets, learn_options, learn_secret, logger_of, redacted
from deltasnap_core.storage.storage_errors import storage_errors

STARS = "*********(redacted)"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("file:///data/key=5/a@b", "file:///data/key=5/a@b"),
        ("s3://lake/events", "s3://lake/events"),
        ("s3://user:pass@lake/events", f"s3://{STARS}@lake/events"),
        ("https://user:p@ss@host/x@y", f"https://{STARS}@host/x@y"),
        ("https://token@host/x", f"https://{STARS}@host/x"),
        ("simplecache::s3://u:p@lake/x", f"simplecache::s3://{STARS}@lake/x"),
        ("abfss://container@account.dfs.core.windows.net/t", "abfss://container@account.dfs.core.windows.net/t"),
        ("abfss://c:secret@account/t", f"abfss://{STARS}@account/t"),
        ("abfs://c@a/t wasb://c@a/t WASBS://c@a/t", "abfs://c@a/t wasb://c@a/t WASBS://c@a/t"),
        ("az://c/t?sv=2024&se=now&sig=ab%2Fc%3D&sp=r", f"az://c/t?sv=2024&se=now&sig={STARS}&sp=r"),
        (
            "https://b/k?X-Amz-Credential=A%2F1&X-Amz-Date=2&X-Amz-Security-Token=T&X-Amz-Signature=S",
            f"https://b/k?X-Amz-Credential={STARS}&X-Amz-Date=2&X-Amz-Security-Token={STARS}&X-Amz-Signature={STARS}",
        ),
        ("https://b/k?x%2Damz%2Dsig%6Eature=S&a=1", f"https://b/k?x%2Damz%2Dsig%6Eature={STARS}&a=1"),
        ("https://b/k?AWSAccessKeyId=A&Signature=S", f"https://b/k?AWSAccessKeyId={STARS}&Signature={STARS}"),
        ("https://b/k?password=p#access_token=t", f"https://b/k?password={STARS}#access_token={STARS}"),
        ("failed: 'https://b/k?sig=S' and s3://u:p@c", f"failed: 'https://b/k?sig={STARS}' and s3://{STARS}@c"),
    ],
)
def test_credentials_are_replaced_and_the_rest_is_unchanged(url: str, shown: str) -> None:
    assert redacted(url) == shown
    assert redacted(shown) == shown


def test_errors_show_no_credentials_and_keep_the_path() -> None:
    url = "s3://user:hidden@lake/events?sig=hidden"
    for error in (DeltaTableNotFoundError(path=url), CorruptLogError(path=url, reason="r", line=1)):
        assert "hidden" not in str(error)
        assert error.path == url


def test_path_in_an_environment_variable_for_secrets_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_CREDENTIALS", "/etc/lake/credentials.json")
    assert redacted("read /etc/lake/credentials.json") == "read /etc/lake/credentials.json"
    for path in ("~/.lake/credentials", "./credentials.json"):
        monkeypatch.setenv("SERVICE_CREDENTIALS", path)
        assert redacted(f"read {path}") == f"read {path}"
    monkeypatch.setenv("SERVICE_CREDENTIALS", "hunter22-hunter22/")
    assert "hunter22" not in redacted("read hunter22-hunter22/")


def test_shortest_secret_of_the_environment_is_hidden_without_other_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_TOKEN", "hunter22")
    assert redacted("hunter22") == STARS
    monkeypatch.setenv("LAKE_TOKEN", "hunter7")
    assert redacted("my hunter7") == "my hunter7"


def test_path_of_a_secret_url_is_hidden_too_unless_it_may_be_a_word() -> None:
    learn_secret("https://hooks.example.com/services/T0/B0/7f3a9c1d5e")
    learn_secret("https://hooks.example.com/short-path")
    shown = redacted("HTTPConnectionPool: /services/T0/B0/7f3a9c1d5e and /short-path refused")
    assert shown == f"HTTPConnectionPool: /{STARS} and /short-path refused"


@pytest.mark.parametrize(("length", "is_hidden"), [(15, False), (16, True)])
def test_path_of_a_secret_url_is_hidden_from_sixteen_characters_on(length: int, is_hidden: bool) -> None:
    path = "q9" * 8
    learn_secret(f"https://hooks.example.com/{path[:length]}")
    assert redacted(f"at /{path[:length]} refused") == f"at /{STARS if is_hidden else path[:length]} refused"


class ResponseError(Exception):
    """An error as aiohttp's, which makes its text from a URL object."""

    def __init__(self, url: object) -> None:
        super().__init__(url)
        self.url = url

    def __str__(self) -> str:
        return f"404, url='{self.url}'"


class Url:
    def __str__(self) -> str:
        return "http://host/e?sig=hidden"

    __repr__ = __str__


def raised_from(cause: Exception) -> ValueError:
    try:
        raise ValueError("of ours") from cause
    except ValueError as error:
        return error


def test_cause_that_makes_its_text_from_a_url_object_is_replaced() -> None:
    with pytest.raises(StorageError) as raised, storage_errors(str(Url())):
        raise ResponseError(Url())
    text = "".join(traceback.format_exception(raised.value)) + repr(vars(raised.value))
    assert f"ResponseError: 404, url='http://host/e?sig={STARS}'" in text
    assert "sig=hidden" not in text


def test_both_file_names_of_a_system_error_have_no_credentials() -> None:
    error = hide_secrets(OSError(2, "no file u:hidden@h/x", "s3://u:hidden@h/from", None, "s3://u:hidden@h/to"))
    assert isinstance(error, OSError)
    assert (error.filename, error.filename2) == (f"s3://{STARS}@h/from", f"s3://{STARS}@h/to")


@pytest.mark.parametrize("kind", [StorageError, NoFilesystemError])
def test_path_of_a_storage_error_has_no_credentials(kind: type[StorageError]) -> None:
    error = kind(path="s3://user:hidden@lake/e", reason="at s3://user:hidden@lake/e")
    assert (error.path, error.reason) == (f"s3://{STARS}@lake/e", f"at s3://{STARS}@lake/e")


def test_every_cause_in_a_chain_is_replaced_and_the_chain_is_kept() -> None:
    last = ResponseError(Url())
    error = hide_secrets(raised_from(raised_from(last)))
    assert isinstance(error.__cause__, ValueError)
    assert repr(error.__cause__.__cause__) == f"""HiddenError("ResponseError: 404, url='http://host/e?sig={STARS}'")"""


def test_log_record_of_such_an_error_has_no_credentials(caplog: pytest.LogCaptureFixture) -> None:
    logger_of("deltasnap_core.test").warning("failed", exc_info=ResponseError(Url()))
    assert "ResponseError: 404" in caplog.text
    assert "sig=hidden" not in caplog.text


@pytest.mark.parametrize(("secret", "within_words"), [("q7z-q7z", False), ("q8z-q8z8", True)], ids=["seven", "eight"])
def test_short_secret_is_replaced_only_as_a_word(secret: str, within_words: bool) -> None:
    learn_secret(secret)
    assert redacted(f"key {secret}.") == f"key {STARS}."
    assert redacted(f"abc{secret}def") == (f"abc{STARS}def" if within_words else f"abc{secret}def")


@pytest.mark.parametrize(("option", "kept", "hidden"), [("password", "zq", "zq7"), ("custom", "q9z-q", "q9z-q8")])
def test_value_of_an_option_is_a_secret_from_a_length_on(option: str, kept: str, hidden: str) -> None:
    learn_options({option: kept})
    assert redacted(f"key {kept}.") == f"key {kept}."
    learn_options({option: hidden})
    assert redacted(f"key {hidden}.") == f"key {STARS}."
