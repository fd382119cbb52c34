"""The Dagster instance of this folder: `.deltasnap/dagster_home`, unless DAGSTER_HOME names another."""

from __future__ import annotations

import json
import os
from pathlib import Path

from deltasnap_assets.settings.config import TABLE_TAG

DEFAULT_HOME = Path(".deltasnap", "dagster_home")

# One run per table at a time: two would do the same work twice. The daemon checks the queue every second instead of
# every five seconds, because a user is waiting. Telemetry is off.
_DAGSTER_YAML = """\
# Written anew by deltasnap, unless you remove this line.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 2
    tag_concurrency_limits:
      - key: {tag}
        value:
          applyLimitPerUniqueValue: true
        limit: 1
run_queue:
  dequeue_interval_seconds: 1
run_launcher:
  module: deltasnap_assets.command.local.run_launcher
  class: StandbyRunLauncher
"""
_LOCAL_STORAGE = """\
storage:
  custom:
    module: deltasnap_assets.command.local.local_storage
    class: LocalStorage
    config:
      base_dir: {home}
"""


def dagster_yaml(home: Path, storage: str = _LOCAL_STORAGE) -> str:
    """Return the `dagster.yaml` of the instance in a folder. storage: its storage section, in YAML."""
    return (_DAGSTER_YAML + storage).format(tag=TABLE_TAG, home=json.dumps(str(home)))


def local_home() -> Path:
    """Return the folder of the instance. It may not exist."""
    return Path(os.environ.get("DAGSTER_HOME") or DEFAULT_HOME).absolute()


def use_local_instance() -> Path:
    """Set DAGSTER_HOME for this process and its children unless it is set. Create the folder and return it.

    The file `dagster.yaml` is updated when the folder moves and by later versions of deltasnap, unless its first line
    was removed.
    """
    home = local_home()
    home.mkdir(parents=True, exist_ok=True)
    settings, wanted = home / "dagster.yaml", dagster_yaml(home)
    found = settings.read_text(encoding="utf-8") if settings.exists() else None
    is_ours = found is None or found.partition("\n")[0] == wanted.partition("\n")[0]
    if is_ours and found != wanted:
        settings.write_text(wanted, encoding="utf-8")
    os.environ["DAGSTER_HOME"] = str(home)
    return home
