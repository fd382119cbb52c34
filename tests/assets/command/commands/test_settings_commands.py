"""`deltasnap alerts test` and `deltasnap config schema`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from deltasnap_assets.settings.config import Settings
from tests.assets.command.commands.driver_commands_builders import run
from tests.docs.snippets_builders import TEXTS, blocks

SECRET = "T000/a-very-secret-token"


class Service(BaseHTTPRequestHandler):
    """A service that stores its messages, and denies those for the path `/denied`."""

    texts: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.texts.append(json.loads(content)["message"])
        self.send_response(403 if self.path.startswith("/denied") else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The address of a running service."""
    pytest.importorskip("apprise")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DELTASNAP_CONFIG", "deltasnap.yaml")
    Service.texts = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def configured(*urls: str) -> None:
    settings = {"storage": "store", "tables": [{"name": "t", "path": "t"}], "alerts": {"urls": list(urls)}}
    Path("deltasnap.yaml").write_text(json.dumps(settings), encoding="utf-8")


def test_each_service_gets_a_message(address: str) -> None:
    configured(f"json://{address}/{SECRET}", f"json://{address}/other")
    result = run("alerts", "test")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "alerts.urls[0]: accepted\nalerts.urls[1]: accepted\n"
    assert Service.texts == ["A test message of deltasnap."] * 2


def test_service_that_denies_a_message_is_an_error_without_its_url(address: str) -> None:
    configured(
        f"json://{address}/denied/{SECRET}",
        f"json://127.0.0.1:1/{SECRET}",
        f"nonsense://{SECRET}",
        f"json://{address}/{SECRET}",
    )
    result = run("alerts", "test")
    assert (result.exit_code, result.stdout) == (1, "alerts.urls[3]: accepted\n")
    assert result.stderr.splitlines() == [
        "error: alerts.urls[0]: HTTP status 403",
        "error: alerts.urls[1]: it cannot be reached or did not answer",
        "error: alerts.urls[2]: Apprise does not know this kind of URL",
    ]
    assert SECRET not in result.output
    assert len(Service.texts) == 2


@pytest.mark.usefixtures("address")
def test_configuration_without_a_service_has_nothing_to_test() -> None:
    configured()
    result = run("alerts", "test")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "`alerts` has no urls" in result.stderr


def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(run("config", "schema").stdout)
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


@pytest.mark.parametrize("name", [name for name in TEXTS if blocks(name, "yaml")])
def test_schema_accepts_the_documented_configurations(name: str) -> None:
    schema = validator()
    for block in blocks(name, "yaml"):
        values = yaml.safe_load(block)
        assert [error.message for error in schema.iter_errors(values.get("attributes", values))] == []


WRONG = {
    "an unknown key": {"tabels": []},
    "an unknown key of a table": {"tables": [{"name": "t", "path": "t", "pol_seconds": 3}]},
    "a missing key": {"tables": [{"name": "t"}]},
    "another type": {"tables": [{"name": "t", "path": "t", "poll_seconds": "often"}]},
    "an unknown choice": {"tables": [{"name": "t", "path": "t", "versions": "some"}]},
    "an unknown limit": {"tables": [{"name": "t", "path": "t", "checks": {"max_smal_file_ratio": 1}}]},
}


@pytest.mark.parametrize("case", WRONG)
def test_schema_rejects_what_the_configuration_rejects(case: str) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Settings.model_validate(WRONG[case])
    assert not validator().is_valid(WRONG[case])
