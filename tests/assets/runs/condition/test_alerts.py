"""Messages about new problems of tables, and their recovery, with Apprise to a real HTTP server."""

from __future__ import annotations

import json
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pydantic import ValidationError

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.condition import alerts, services
from deltasnap_assets.runs.condition.alerts import Reported, alert_of, alerts_sensor
from deltasnap_assets.runs.condition.services import send
from deltasnap_assets.runs.fleet import fleet_of
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import AlertSettings, Settings
from deltasnap_assets.settings.discovery import with_discovered
from deltasnap_assets.settings.loading import read_settings
from deltasnap_assets.settings.table_settings import ASSET_NAMES, TableSettings
from deltasnap_assets.settings.yaml_source import ConfigError
from deltasnap_assets.tables.pages.fleet_page import fleet_page
from deltasnap_core import DeltaSnapError, Problem
from deltasnap_core.errors import StorageError
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.support import LastPoll, TableStatus, system_clock
from tests.builders import metadata, protocol, write_log

SECRET = "T000/B000/a-very-secret-token"
HOUR = 3_600_000

WARNING = Problem.of_check(check="small_files", severity="warning", text="Many small files.", advice="Run `OPTIMIZE`.")
ERROR = Problem.of_check(check="log", severity="error", text="Version 3 cannot be read.", advice="Restore it.")


class Chat:
    """A service that stores its messages. status: of its responses."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        chat = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                chat.headers = dict(self.headers)
                self.send_response(chat.status)
                if 300 <= chat.status < 400:
                    self.send_header("Location", "/elsewhere")
                if chat.status == 200 and self.path == f"/services/{SECRET}":
                    chat.texts.append(json.loads(content)["message"])
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://127.0.0.1:{self.server.server_port}/services/{SECRET}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def taken(self) -> list[str]:
        texts, self.texts = self.texts, []
        return texts


@pytest.fixture
def chat() -> Iterator[Chat]:
    made = Chat()
    yield made
    made.close()


class Fleet:
    """Tables without logs: only their recorded polls matter."""

    def __init__(self, folder: Path, url: str | list[str], *tables: str, **alerts: Any) -> None:
        self.settings = Settings.model_validate(
            {
                "storage": str(folder / "store"),
                "tables": [{"name": name, "path": f"/lake/{name}"} for name in tables or ("events",)],
                "alerts": {"urls": [url] if isinstance(url, str) else url, **alerts},
            }
        )
        self.sensor = alerts_sensor(self.settings)
        self.instance = dg.DagsterInstance.ephemeral()
        self.cursor: str | None = None

    def discover(self, path: str) -> None:
        """Also follow the tables of a pattern."""
        urls = self.settings.alerts.urls
        self.settings = Settings.model_validate(
            {**self.settings.model_dump(), "alerts": {"urls": urls}, "discover": [{"path": path}]}
        )
        self.sensor = alerts_sensor(self.settings)

    def note(self, *problems: Problem, table: str = "events", **fields: Any) -> None:
        poll = LastPoll(**{"polled_at_ms": system_clock(), "problems": problems, "checked_version": 1, **fields})
        store_of(self.settings).polls.write(table, poll)

    def tick(self) -> str:
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor)
        result = self.sensor(context)
        assert isinstance(result, dg.SkipReason)
        self.cursor = context.cursor
        return result.skip_message or ""


@pytest.fixture
def fleet(tmp_path: Path, chat: Chat) -> Fleet:
    """A fleet of the table `events`, which reports to the chat."""
    return Fleet(tmp_path, chat.url)


def test_one_message_is_sent_when_a_table_gets_worse_and_one_when_it_recovers(tmp_path: Path, chat: Chat) -> None:
    fleet = Fleet(tmp_path, chat.url, ui="https://dagster.example/")
    fleet.note()
    assert (fleet.tick(), chat.taken()) == ("No table has a new problem or has recovered.", [])
    fleet.note(WARNING)
    assert fleet.tick() == "Sent 1 message."
    link = "https://dagster.example/assets/events/delta_log"
    assert chat.taken() == [f"Table events has a warning. Many small files. Run `OPTIMIZE`. {link}"]
    assert (fleet.tick(), chat.taken()) == ("No table has a new problem or has recovered.", [])
    fleet.note(WARNING, ERROR)
    fleet.tick()
    assert chat.taken() == [f"Table events is broken. Version 3 cannot be read. Restore it. {link}"]
    fleet.note()
    fleet.tick()
    assert chat.taken() == [f"Table events has recovered. It is healthy now. {link}"]
    assert (fleet.tick(), chat.taken()) == ("No table has a new problem or has recovered.", [])


@pytest.mark.parametrize(
    ("severity", "what", "on"),
    [
        ("error", "is broken", "error"),
        ("unknown", "was not checked recently", "warn"),
        ("warning", "has a warning", "warn"),
        ("stale", "is stale", "warn"),
    ],
)
def test_each_condition_is_reported_once_with_its_words(severity: Any, what: str, on: Any) -> None:
    def alert(status: TableStatus, reported: Reported, **settings: Any) -> str | None:
        table = TableSettings(name="events", path="/data/events")
        return alert_of("events", status, reported, Settings(alerts=AlertSettings(**settings), tables=(table,)), 0)

    problem = Problem.of_check(check="c", severity=severity, text="<!channel> a & b\n", advice="Do it.")
    status = TableStatus.of(problem)
    link = "http://127.0.0.1:3000/assets/events/delta_log"
    text = f"Table events {what}. < !channel> a & b; Do it. {link}"
    assert alert(status, {}) == text
    reported = {"c" if severity in ("warning", "stale") else status.level.value: None}
    assert alert(status, reported) is None
    assert (alert(status, {}, on=("error",)) is None) == (on == "warn")
    healthy = TableStatus()
    assert alert(healthy, {}) is None
    recovered = f"Table events has recovered. It is healthy now. {link}"
    assert alert(healthy, {"c": 1}) == recovered


@pytest.mark.parametrize("on", [("error",), ("error", "warn")])
def test_table_with_a_lasting_warning_is_reported_each_time_it_breaks(
    tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch, on: tuple[str, ...]
) -> None:
    fleet = Fleet(tmp_path, chat.url, on=on)
    began = system_clock()
    for hours, problem in ((0, WARNING), (0, ERROR), (1, WARNING), (2, ERROR), (3, WARNING), (28, ERROR)):
        monkeypatch.setattr(alerts, "system_clock", lambda at=began + hours * HOUR: at)
        fleet.note(problem, polled_at_ms=began + hours * HOUR)
        fleet.tick()
    sent = ["has a warning"] * ("warn" in on) + ["is broken"] * 2
    assert [text.split(".")[0].removeprefix("Table events ") for text in chat.taken()] == sent


def test_table_with_a_warning_that_is_no_longer_checked_is_reported(fleet: Fleet, chat: Chat) -> None:
    for waited in (1, 30):
        fleet.note(WARNING, unchecked_since_ms=system_clock() - waited * HOUR)
        fleet.tick()
    first, second = chat.taken()
    assert first.startswith("Table events has a warning. Many small files.")
    assert second.startswith("Table events was not checked recently. No run has checked this table for 30 hours")


def test_table_that_alternates_between_warning_and_error_is_reported_twice(fleet: Fleet, chat: Chat) -> None:
    for problem in (WARNING, ERROR, WARNING, ERROR, WARNING, ERROR):
        fleet.note(problem)
        fleet.tick()
    assert [text.split(".")[0] for text in chat.taken()] == ["Table events has a warning", "Table events is broken"]


def test_each_new_warning_of_a_table_is_reported(fleet: Fleet, chat: Chat) -> None:
    failed = Problem.of_check(check="run", severity="warning", text="The last run failed.")
    late: dict[str, Any] = {"stale_after_ms": 24 * HOUR, "last_commit_ms": system_clock() - 30 * HOUR}
    for problems in ((WARNING,), (WARNING, failed), (WARNING,), (WARNING, failed)):
        fleet.note(*problems)
        fleet.tick()
    fleet.note(WARNING, **late)
    fleet.tick()
    fleet.tick()
    warned, again, stale = chat.taken()
    assert warned.startswith("Table events has a warning. Many small files. Run `OPTIMIZE`.")
    assert again.startswith("Table events has a warning. Many small files. The last run failed.")
    assert "Many small files. The last commit is 30 hours old, at most 24 hours expected. Run" in stale
    fleet.note()
    fleet.tick()
    assert "has recovered" in chat.taken()[0]


def test_only_configured_levels_are_reported(tmp_path: Path, chat: Chat) -> None:
    fleet = Fleet(tmp_path, chat.url, on=["error"])
    for problems in ((WARNING,), (), (ERROR,), (WARNING,), ()):
        fleet.note(*problems)
        fleet.tick()
    assert [text.split(".")[0] for text in chat.taken()] == ["Table events is broken", "Table events has recovered"]


def test_failed_message_is_sent_by_a_later_tick(tmp_path: Path, chat: Chat) -> None:
    fleet = Fleet(tmp_path, chat.url, "a", "b")
    fleet.note(ERROR, table="a")
    fleet.note(ERROR, table="b")
    for chat.status in (500, 404, 301):
        with pytest.raises(DeltaSnapError, match=f"HTTP status {chat.status}"):
            fleet.tick()
    assert chat.taken() == []
    chat.status = 200
    assert fleet.tick() == "Sent 2 messages."
    assert len(chat.taken()) == 2


def test_rejected_message_is_sent_after_the_others(tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(tmp_path, chat.url, "a", "b", "c")
    for table in ("a", "b", "c"):
        fleet.note(ERROR, table=table)

    def failing_for_b(service: Any, text: str, tone: Any) -> str | None:
        chat.status = 503 if text.startswith("Table b ") else 200
        return send(service, text, tone)

    monkeypatch.setattr(alerts, "send", failing_for_b)
    assert fleet.tick().startswith("Sent 2 messages. `alerts.urls[0]` did not accept a message: HTTP status 503.")
    with pytest.raises(DeltaSnapError, match="HTTP status 503"):
        fleet.tick()
    monkeypatch.undo()
    chat.status = 200
    assert fleet.tick() == "Sent 1 message."
    assert sorted(text[:8] for text in chat.taken()) == ["Table a ", "Table b ", "Table c "]


@pytest.mark.parametrize("cursor", ["{", "[]"])
def test_problems_are_reported_again_if_the_cursor_cannot_be_read(fleet: Fleet, chat: Chat, cursor: str) -> None:
    fleet.cursor = cursor
    fleet.note(ERROR)
    fleet.tick()
    fleet.tick()
    assert len(chat.taken()) == 1


def test_each_service_gets_each_message_once_although_another_one_rejects_it(tmp_path: Path, chat: Chat) -> None:
    other = Chat()
    try:
        fleet = Fleet(tmp_path, [other.url, f"nonsense://{SECRET}", chat.url])
        fleet.note(ERROR)
        other.status = 500
        assert fleet.tick().startswith("Sent 1 message. `alerts.urls[0]` did not accept a message")
        for _ in range(2):
            with pytest.raises(DeltaSnapError, match=r"`alerts.urls\[0\]` did not accept a message: HTTP status 500\."):
                fleet.tick()
        other.status = 200
        assert fleet.tick().startswith("Sent 1 message. `alerts.urls[1]` did not accept a message")
        for _ in range(2):
            with pytest.raises(DeltaSnapError, match=r"`alerts.urls\[1\]` .* Apprise does not know this kind of URL\."):
                fleet.tick()
        assert [len(each.taken()) for each in (chat, other)] == [1, 1]
    finally:
        other.close()


def test_service_that_sends_a_redirect_has_no_message(fleet: Fleet, chat: Chat) -> None:
    fleet.note(ERROR)
    chat.status = 302
    with pytest.raises(DeltaSnapError, match="HTTP status 302"):
        fleet.tick()


def test_slow_service_gets_the_rest_a_tick_later(tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(tmp_path, chat.url, *"abcde")
    for table in "abcde":
        fleet.note(ERROR, table=table)
    clock = [100.0]

    def slow(*sent: Any) -> str | None:
        clock[0] += 15
        return send(*sent)

    monkeypatch.setattr(alerts, "send", slow)
    monkeypatch.setattr("deltasnap_assets.runs.condition.alerts.time.monotonic", lambda: clock[0])
    assert fleet.tick() == "Sent 3 messages. The next tick sends the rest."
    assert fleet.tick() == "Sent 2 messages."
    assert sorted(text[6] for text in chat.taken()) == [*"abcde"]


def test_rejections_of_a_slow_service_keep_none_back(
    tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path, chat.url, *"abcdef")
    for table in "abcdef":
        fleet.note(ERROR, table=table)
    clock, began = [0.0], system_clock()

    def slow(service: Any, text: str, tone: Any) -> str | None:
        if text[6] in "abcd":
            clock[0] += 16
            return "it cannot be reached"
        return send(service, text, tone)

    monkeypatch.setattr(alerts, "send", slow)
    monkeypatch.setattr("deltasnap_assets.runs.condition.alerts.time.monotonic", lambda: clock[0])
    for minute in range(6):
        monkeypatch.setattr(alerts, "system_clock", lambda at=began + minute * 60_000: at)
        try:
            text = fleet.tick()
        except DeltaSnapError as error:
            text = str(error)
        assert "cannot be reached" in text
    assert sorted(text[6] for text in chat.taken()) == [*"ef"]


def test_alerts_without_apprise_are_an_error_naming_the_extra(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setattr(services, "find_spec", lambda name: None if name == "apprise" else object())
    with pytest.raises(DeltaSnapError, match=r"`alerts` need the package apprise: .*alerts"):
        build_definitions(fleet.settings)


def test_earlier_key_is_an_error_that_names_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "deltasnap.yaml"
    file.write_text(f"tables: [{{name: t, path: /t}}]\nalerts:\n  webhook: https://host/{SECRET}\n")
    with pytest.raises(
        ConfigError, match=r"deltasnap.yaml:3: alerts\.webhook: use `urls`, a list of Apprise URLs"
    ) as raised:
        read_settings(file, {})
    assert SECRET not in str(raised.value)


def test_table_of_the_same_name_at_another_path_is_reported_again(fleet: Fleet, tmp_path: Path, chat: Chat) -> None:
    fleet.note(ERROR)
    fleet.tick()
    (table,) = fleet.settings.tables
    moved = table.model_copy(update={"path": str(tmp_path / "elsewhere")})
    assert (fleet.tick(), len(chat.taken())) == ("No table has a new problem or has recovered.", 1)
    fleet.settings = fleet.settings.model_copy(update={"tables": (moved,)})
    fleet.sensor = alerts_sensor(fleet.settings)
    assert fleet.tick() == "Sent 1 message."


def test_name_taken_by_another_table_is_reported(fleet: Fleet, chat: Chat) -> None:
    fleet.note(path="/lake/old")
    fleet.tick()
    assert "The store has another table of this name, at /lake/old." in chat.texts[0]


def test_cursor_forgets_tables_and_services_that_are_removed(fleet: Fleet, chat: Chat) -> None:
    fleet.note(ERROR)
    fleet.tick()
    (key,) = json.loads(fleet.cursor or "{}")
    fleet.cursor = json.dumps({key: {"broken": None}, "gone/0/0": {"broken": None}, f"{key}0": {"broken": None}})
    assert fleet.tick() == "No table has a new problem or has recovered."
    assert json.loads(fleet.cursor) == {key: {"broken": None}}


def test_discovered_table_that_lost_its_log_is_reported(fleet: Fleet, tmp_path: Path, chat: Chat) -> None:
    write_log(tmp_path / "lake" / "users", {0: [protocol(), metadata()]})
    lost = tmp_path / "lake" / "orders"
    fleet.discover(f"{tmp_path}/lake/*")
    fleet.note(table="orders", path=str(lost))
    fleet.note(table="users", path=str(tmp_path / "lake" / "users"))  # found after the definitions were loaded
    fleet.tick()
    (text,) = chat.taken()
    assert text.startswith(f"Table orders has a warning. This table is in the store, but {lost} is no longer a")
    assert (fleet.tick(), chat.taken()) == ("No table has a new problem or has recovered.", [])
    rows = {row["table"]: row for row in fleet_of(fleet.settings)}
    assert {name: row["condition"] for name, row in rows.items()} == {"events": "unknown", "orders": "warned"}
    assert rows["orders"]["advice"].startswith("Restore its log.")


def test_discovered_table_without_a_name_is_reported(fleet: Fleet, tmp_path: Path, chat: Chat) -> None:
    unnamed = tmp_path / "lake" / "__"
    write_log(unnamed, {0: [protocol(), metadata()]})
    fleet.discover(f"{tmp_path}/lake/*")
    fleet.settings = with_discovered(fleet.settings)
    fleet.sensor = alerts_sensor(fleet.settings)
    fleet.tick()
    reason = "its folder gives the name '', and Dagster allows only letters, digits and underscores"
    advice = "Rename its folder, or list it in `tables` with a name."
    assert chat.taken() == [f"Table {unnamed} was not checked recently. This table is not followed: {reason}. {advice}"]
    rows = {row["table"]: row for row in fleet_of(fleet.settings)}
    assert {name: row["condition"] for name, row in rows.items()} == {"events": "unknown", str(unnamed): "unknown"}
    worst = str(fleet_page([*rows.values()])["worst"].value)
    assert "| [events](/assets/events/delta_log) |" in worst
    assert r"| …\/lake\/\_\_ | unknown |" in worst


def test_unreadable_folder_of_a_pattern_does_not_block_alerts(fleet: Fleet, tmp_path: Path, chat: Chat) -> None:
    fleet.discover(f"{tmp_path}/none/*")
    fleet.note(table="orders", path=str(tmp_path / "none" / "orders"))
    fleet.note(WARNING)
    assert fleet.tick() == "Sent 1 message."


def test_table_without_any_poll_is_not_reported(fleet: Fleet, chat: Chat) -> None:
    assert (fleet.tick(), chat.taken()) == ("No table has a new problem or has recovered.", [])


def test_materialized_table_is_reported_if_the_store_was_deleted(fleet: Fleet, chat: Chat) -> None:
    materialized = dg.AssetMaterialization(dg.AssetKey(["events", ASSET_NAMES[0]]), partition="0")
    fleet.instance.report_runless_asset_event(materialized)
    assert fleet.tick() == "Sent 1 message."
    assert "the store has no record of it" in chat.texts[0]


def test_table_with_an_unreadable_store_blocks_none(
    tmp_path: Path, chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path, chat.url, "events", "other")
    fleet.note(ERROR)
    read = WritableFiles.read

    def denied(self: WritableFiles, path: str) -> bytes:
        if "/other/" in path:
            raise StorageError(path=path, reason="Access Denied")
        return read(self, path)

    monkeypatch.setattr(WritableFiles, "read", denied)
    assert fleet.tick() == "Sent 2 messages."
    first, second = sorted(chat.texts)
    assert "Table events is broken." in first
    assert "Table other was not checked recently. The store of this table cannot be read" in second


@pytest.mark.parametrize(
    ("problems", "hours", "reported"),
    [
        ((), {}, ""),
        ((ERROR,), {}, "is broken. Version 3 cannot be read."),
        ((), {"unchecked_since_ms": 30}, "was not checked recently. No run has checked this table for 30 hours"),
        ((), {"polled_at_ms": 72}, "was not checked recently. deltasnap last read the log of this table 72 hours ago."),
    ],
)
def test_table_that_no_run_checked_is_reported_if_it_is_broken_or_after_a_day(
    problems: tuple[Problem, ...], hours: dict[str, int], reported: str, fleet: Fleet, chat: Chat
) -> None:
    times: dict[str, Any] = {name: system_clock() - each * HOUR for name, each in hours.items()}
    fleet.note(*problems, checked_version=None, **times)
    fleet.tick()
    assert [text.startswith(f"Table events {reported}") for text in chat.taken()] == [True] * bool(reported)


def test_damaged_poll_is_reported(fleet: Fleet, tmp_path: Path, chat: Chat) -> None:
    fleet.note()
    (tmp_path / "store" / "events" / "last_poll.json").write_text("{")
    fleet.tick()
    assert "The last poll of this table cannot be read: " in chat.taken()[0]


def test_text_from_a_log_cannot_mention_anybody_or_break_the_line(fleet: Fleet, chat: Chat) -> None:
    fleet.note(Problem.of_check(check="log", severity="error", text="<!channel> & <https://x|y> @here a@b\n\x1b[31m"))
    fleet.tick()
    (text,) = chat.taken()
    assert "< !channel> & < https://x|y> @ here a@b; \\x1b[31m" in text


@pytest.mark.parametrize("is_listening", [True, False])
def test_url_is_in_no_error_log_or_repr(
    tmp_path: Path, chat: Chat, is_listening: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    chat.status = 500
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = chat.url if is_listening else f"json://127.0.0.1:{unused.getsockname()[1]}/services/{SECRET}"
        fleet = Fleet(tmp_path, url)
        fleet.note(ERROR)
        with pytest.raises(DeltaSnapError, match="did not accept a message") as caught:
            fleet.tick()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    reported = [str(caught.value), repr(caught.value), caplog.text, repr(fleet.settings), str(fleet.settings)]
    reported += [str(fleet.settings.model_dump()), fleet.settings.model_dump_json(), repr(fleet.settings.alerts)]
    assert [text for text in reported if SECRET in text] == []


def test_error_of_another_part_does_not_show_the_url(tmp_path: Path, chat: Chat) -> None:
    Fleet(tmp_path, chat.url)
    assert SECRET not in str(DeltaSnapError(f"connection to {chat.url} failed"))


@pytest.mark.parametrize("url", [f"//host/{SECRET}", SECRET, f"https://host/{SECRET} x", "[1]", "{a: b}"])
def test_invalid_url_is_rejected_without_showing_it(tmp_path: Path, url: str) -> None:
    file = tmp_path / "deltasnap.yaml"
    quoted = url if url[0] in "[{" else json.dumps(url)
    file.write_text(f"tables: [{{name: t, path: /t}}]\nalerts:\n  urls: [{quoted}]\n")
    with pytest.raises(ConfigError, match=r"deltasnap.yaml:3: alerts\.urls") as caught:
        read_settings(file, {})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("line", [f"alerts: https://host/{SECRET}", f"alerts: {{webhok: https://host/{SECRET}}}"])
def test_url_in_the_wrong_place_is_not_shown(tmp_path: Path, line: str) -> None:
    file = tmp_path / "deltasnap.yaml"
    file.write_text(f"tables: [{{name: t, path: /t}}]\n{line}\n")
    with pytest.raises(ConfigError, match=r"deltasnap.yaml:2: alerts") as caught:
        read_settings(file, {})
    assert SECRET not in str(caught.value)


def test_alerts_are_read_from_the_file(tmp_path: Path, chat: Chat) -> None:
    file = tmp_path / "deltasnap.yaml"
    file.write_text('tables: [{name: t, path: /t}]\nalerts: {urls: ["${SLACK_URL}"], on: [error]}\n')
    alerts = read_settings(file, {"SLACK_URL": chat.url}).alerts
    assert ([url.get_secret_value() for url in alerts.urls], alerts.on) == ([chat.url], ("error",))


def test_key_on_may_be_the_boolean_of_older_yaml() -> None:
    found = Settings.model_validate({"tables": [{"name": "t", "path": "/t"}], "alerts": {True: ["warn"]}})
    assert found.alerts.on == ("warn",)
    with pytest.raises(ValidationError):
        Settings.model_validate({"tables": [{"name": "t", "path": "/t"}], "alerts": {"on": ["fatal"]}})
