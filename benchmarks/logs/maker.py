"""Generate a log: `python -m benchmarks.logs.maker FOLDER --files 1000000 --checkpoint multi-part --parts 100 ...`."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import fields
from pathlib import Path

from benchmarks.logs.checkpoint import write_checkpoint
from benchmarks.logs.commits import write_base_commit, write_checksums, write_commits
from benchmarks.logs.shape import CheckpointKind, CheckpointWriter, LogShape


def make_table(shape: LogShape, folder: Path) -> Path:
    """Generate the log of a table in `folder`, atomically, unless it exists. Return the folder."""
    if folder.exists():
        return folder
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    log = partial / "_delta_log"
    log.mkdir(parents=True)
    write_base_commit(shape, log)
    if shape.checkpoint is not CheckpointKind.NONE:
        write_checkpoint(shape, log)
    write_commits(shape, log)
    if shape.checksums:
        write_checksums(shape, log)
    partial.rename(folder)
    return folder


def main() -> None:
    """Generate one table from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("folder", type=Path, help="the table's folder, not there yet")
    for field in fields(LogShape):
        option = f"--{field.name.replace('_', '-')}"
        if isinstance(field.default, CheckpointKind):
            parser.add_argument(option, type=CheckpointKind, choices=list(CheckpointKind), default=field.default)
        elif isinstance(field.default, CheckpointWriter):
            continue  # a peer's checkpoint needs the peer's program: see benchmarks.shapes
        elif isinstance(field.default, bool):
            parser.add_argument(option, action="store_true")
        else:
            parser.add_argument(option, type=int, default=field.default)
    options = vars(parser.parse_args())
    folder = options.pop("folder")
    make_table(LogShape(**options), folder)


if __name__ == "__main__":
    main()
