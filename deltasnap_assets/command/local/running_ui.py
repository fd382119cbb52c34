"""Records which `deltasnap ui` uses the Dagster instance of a folder, and finds the processes that a killed one left.

Two UIs would run two daemons on one instance. `ui.json` in the folder of the instance names the process of the UI.
Every process that a UI starts has a variable in its environment, which identifies it after the UI is gone.
"""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

from deltasnap_assets.processes import (
    arguments_of,
    has_ended,
    locked,
    pid_of,
    read_record,
    send_signal,
    stop_all,
    this_process,
    with_variable,
)
from deltasnap_core import DeltaSnapError

UI_VARIABLE = "DELTASNAP_UI"
_RECORD = "ui.json"
_OF_RUNS = ("execute_run", "execute_step", "deltasnap_assets.command.local.standby")
_SECONDS_TO_END = 10


class UiRunsError(DeltaSnapError):
    """Another `deltasnap ui` uses this instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ui:
    """A `deltasnap ui`. process: its name. mark: the value of UI_VARIABLE in all processes that it starts."""

    url: str
    process: str
    mark: str

    @property
    def is_running(self) -> bool:
        """Whether the process is still running."""
        return has_ended(self.process) is False


def last_ui(home: Path) -> Ui | None:
    """Return the UI that used the instance last, running or not; None: there was none.

    Errors: UiRunsError if its record is invalid.
    """
    try:
        return read_record(home / _RECORD, Ui)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        advice = "delete it if no `deltasnap ui` is running"
        raise UiRunsError(f"{home / _RECORD} is invalid ({error}): {advice}.") from error


def leftovers(home: Path) -> list[str]:
    """Return the processes left by a UI that is gone: webserver, daemon, code servers, runs."""
    ui = last_ui(home)
    return [] if ui is None or ui.is_running else with_variable(UI_VARIABLE, ui.mark)


def take_instance(home: Path, url: str) -> int:
    """Record this process as the UI of the instance. Return how many processes of an earlier UI it stopped.

    Errors: UiRunsError if another UI uses the instance.
    """
    with locked(home / "ui.lock"):
        ui = last_ui(home)
        if ui is not None and ui.is_running and ui.process != this_process():
            found = f"deltasnap ui is already running at {ui.url}, process {pid_of(ui.process)}"
            raise UiRunsError(f"{found}. Use it, or stop it first.")
        left = _stop_leftovers(home)
        taken = Ui(url=url, process=this_process(), mark=uuid4().hex)
        temporary = home / f".{_RECORD}"
        temporary.write_text(json.dumps(asdict(taken)), encoding="utf-8")
        temporary.replace(home / _RECORD)
    os.environ[UI_VARIABLE] = taken.mark
    return len(left)


def stop_leftovers(home: Path) -> list[str]:
    """Stop the processes left by a UI that is gone, and return them. A UI that is running keeps its processes."""
    if not leftovers(home):
        return []
    with locked(home / "ui.lock"):
        return _stop_leftovers(home)


def _stop_leftovers(home: Path) -> list[str]:
    ui, left = last_ui(home), leftovers(home)
    if ui is not None and left:
        _stop(ui.mark)
    return left


def _stop(mark: str) -> None:
    stop_all(partial(_services, mark), timeout_seconds=_SECONDS_TO_END)
    # A run records a signal as its cancellation. A killed run counts as lost, and is retried.
    for process in with_variable(UI_VARIABLE, mark):
        send_signal(process, signal.SIGKILL)
    stop_all(partial(with_variable, UI_VARIABLE, mark), timeout_seconds=0)


def _services(mark: str) -> list[str]:
    found = with_variable(UI_VARIABLE, mark)
    return [process for process in found if not set(_OF_RUNS) & set(arguments_of(process))]
