"""Who or what made a commit, and how, as texts. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltasnap_core import CommitInfo


def made_by(commit: CommitInfo) -> dict[str, str]:
    """Return who or what made a commit: `user`, `job`, `notebook`, `cluster`, `engine`, without unknown ones.

    A job and a notebook are those of Databricks: `nightly (12, run 345)`. A job may also be a text of any writer.
    """
    found = {
        "user": commit.user_name or commit.user_id,
        "job": _job(commit.job or {}) or _text(commit.extra, "job"),
        "notebook": _text(commit.notebook or {}, "notebookId"),
        "cluster": commit.cluster_id,
        "engine": commit.engine_info,
    }
    return {name: text for name, text in found.items() if text}


def made_how(commit: CommitInfo) -> dict[str, str]:
    """Return how a commit was made: `read_version`, `isolation_level`, `blind_append`, without unknown ones.

    A blind append read no data of the table.
    """
    blind = None if commit.is_blind_append is None else ("yes" if commit.is_blind_append else "no")
    read = None if commit.read_version is None else f"{commit.read_version}"
    found = {"read_version": read, "isolation_level": commit.isolation_level, "blind_append": blind}
    return {name: text for name, text in found.items() if text}


def _job(job: Mapping[str, Any]) -> str | None:
    name, run = _text(job, "jobName"), _text(job, "jobRunId", "runId")
    more = ", ".join(filter(None, [_text(job, "jobId"), run and f"run {run}"]))
    return f"{name} ({more})" if name and more else name or more or None


def _text(values: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of these values that is set. A writer may store any JSON."""
    value = next((values[name] for name in names if values.get(name) not in (None, "")), None)
    return value if value is None or isinstance(value, str) else json.dumps(value)
