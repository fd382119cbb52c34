"""The entry point of the `deltasnap` command. Loads its modules, which takes half a second."""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def main() -> NoReturn:
    """Run a command and end the process. Ctrl-C ends it without a traceback, also while modules are loaded."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # with `nohup` or `&`, it is ignored
    if is_default:
        signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    from deltasnap_assets.command.cli import main as run  # noqa: PLC0415

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
