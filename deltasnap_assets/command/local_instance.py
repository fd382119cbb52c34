"""The Dagster instance of this folder: `.deltasnap/dagster_home`, unless DAGSTER_HOME names another."""

from __future__ import annotations

import os
from pathlib import Path

from deltasnap_assets.settings.config import TABLE_TAG

DEFAULT_HOME = Path(".deltasnap", "dagster_home")

# One run of a table at a time: two would do the same work twice. The queue is looked at each second, where five are
# usual: people wait for it. Nothing is sent anywhere.
DAGSTER_YAML = f"""\
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 2
    tag_concurrency_limits:
      - key: {TABLE_TAG}
        value:
          applyLimitPerUniqueValue: true
        limit: 1
run_queue:
  dequeue_interval_seconds: 1
"""


def use_local_instance() -> Path:
    """Set DAGSTER_HOME for this process and its children where it is not set; returns the folder, made if need be."""
    home = Path(os.environ.get("DAGSTER_HOME") or DEFAULT_HOME).absolute()
    home.mkdir(parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists():
        settings.write_text(DAGSTER_YAML, encoding="utf-8")
    os.environ["DAGSTER_HOME"] = str(home)
    return home
