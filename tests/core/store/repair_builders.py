"""A table with a log that can be damaged in many ways, and its right content."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT, SIDECAR_FOLDER, checkpoint_file, commit_file
from tests.builders import Action, add, commit_info, flip_bytes, metadata, mtime_of, protocol, remove, write_log
from tests.checkpoint_files import CheckpointStyle, write_checkpoint
from tests.oracle import replay

LATEST = 12
MIDDLE = 6
"""The version of a checkpoint, where a log has one."""
FEATURES = ("v2Checkpoint", "domainMetadata")


def commits_of_table(count: int = LATEST + 1) -> list[list[Action]]:
    """Return commits with files, tombstones, transactions and domains."""
    return [_commit(version) for version in range(count)]


def _commit(version: int) -> list[Action]:
    of = [protocol(3, 7, readerFeatures=["v2Checkpoint"], writerFeatures=[*FEATURES]), metadata(name="a table")]
    stats = json.dumps({"numRecords": version + 1})
    gone = [remove(f"f%20{version - 2}", deletion_timestamp=mtime_of(version), size=7)] if version % 3 == 2 else []
    domain = {"domain": f"d{version % 2}", "configuration": f'{{"v":{version}}}', "removed": False}
    return [
        commit_info(version=version),
        *(of if not version else []),
        add(f"f%20{version}", size=7, stats=stats, tags={"a": "b"}),
        *gone,
        {"txn": {"appId": "app", "version": version, "lastUpdated": mtime_of(version)}},
        {"domainMetadata": domain},
    ]


def make_log(table: Path) -> Path:
    """Write the log of the table, without checkpoints. Return its folder."""
    return write_log(table, dict(enumerate(commits_of_table())))


def put_checkpoint(log: Path, version: int, style: CheckpointStyle = "classic", *, clean: bool = True) -> list[Path]:
    """Write a checkpoint and its hint. clean: delete the commits before it. Return its top-level files."""
    files = write_checkpoint(log, version, style, replay(commits_of_table(version + 1))[-1].actions(0))
    hint = {"version": version, "size": 1} | ({"parts": len(files)} if len(files) > 1 else {})
    (log / LAST_CHECKPOINT).write_text(json.dumps(hint))
    for each in range(version if clean else 0):
        (log / commit_file(each)).unlink()
    return files


@dataclass(frozen=True, kw_only=True)
class Damage:
    """How to damage a log; the version of the checkpoint that repairs it, and the versions that stay unreadable."""

    do: Callable[[Path], object]
    version: int
    unreadable: tuple[int, ...] = ()
    renames: bool = False


def _commit_5(log: Path) -> Path:
    return log / commit_file(5)


def _corrupt(log: Path, version: int, style: CheckpointStyle = "classic") -> None:
    flip_bytes(put_checkpoint(log, version, style)[-1], 40)


def _lose_sidecar(log: Path) -> None:
    put_checkpoint(log, MIDDLE, "v2-json-sidecars")
    next((log / SIDECAR_FOLDER).iterdir()).unlink()


def _flip_sidecar(log: Path) -> None:
    put_checkpoint(log, MIDDLE, "v2-parquet-sidecars")
    flip_bytes(next((log / SIDECAR_FOLDER).iterdir()), 0)


def _lose_checkpoint(log: Path, *, clean: bool) -> None:
    put_checkpoint(log, MIDDLE, clean=clean)[0].unlink()


def _damage_two_commits(log: Path) -> None:
    (log / commit_file(3)).unlink()
    (log / commit_file(8)).write_text("{")


DAMAGES = {
    "lost commit": Damage(do=lambda log: _commit_5(log).unlink(), version=6, unreadable=(5,)),
    "garbage commit": Damage(do=lambda log: _commit_5(log).write_text("garbage {"), version=6, unreadable=(5,)),
    "cut commit": Damage(
        do=lambda log: _commit_5(log).write_bytes(_commit_5(log).read_bytes()[:-40]), version=6, unreadable=(5,)
    ),
    "empty commit": Damage(do=lambda log: _commit_5(log).write_bytes(b""), version=6, unreadable=(5,)),
    "two commits": Damage(do=_damage_two_commits, version=9, unreadable=tuple(range(3, 9))),
    "first commit": Damage(do=lambda log: (log / commit_file(0)).unlink(), version=1),
    "corrupt checkpoint after cleanup": Damage(do=lambda log: _corrupt(log, MIDDLE), version=7, unreadable=(6,)),
    "corrupt part after cleanup": Damage(do=lambda log: _corrupt(log, MIDDLE, "multipart"), version=7, unreadable=(6,)),
    "lost part after cleanup": Damage(do=lambda log: put_checkpoint(log, MIDDLE, "multipart")[1].unlink(), version=6),
    "lost sidecar": Damage(do=_lose_sidecar, version=7, unreadable=(6,)),
    "corrupt sidecar": Damage(do=_flip_sidecar, version=7, unreadable=(6,)),
    "lost checkpoint after cleanup": Damage(do=lambda log: _lose_checkpoint(log, clean=True), version=6),
    "lost checkpoint that the hint names": Damage(do=lambda log: _lose_checkpoint(log, clean=False), version=6),
    "corrupt checkpoint of the latest version": Damage(
        do=lambda log: _corrupt(log, LATEST), version=LATEST, renames=True
    ),
    "empty checkpoint of the latest version": Damage(
        do=lambda log: (log / checkpoint_file(LATEST)).touch(), version=LATEST, renames=True
    ),
    "corrupt checkpoint of parts of the latest version": Damage(
        do=lambda log: _corrupt(log, LATEST, "multipart"), version=LATEST, renames=True
    ),
}


def copy_of(table: Path, target: Path) -> Path:
    """Copy a table with the times of its files. Return the folder of the copied log."""
    shutil.copytree(table, target)
    return target / "_delta_log"
