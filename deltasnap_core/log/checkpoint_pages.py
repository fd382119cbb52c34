"""Reads a checkpoint's pages to the end, so that damage shows before Spark meets it. No Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.checkpoint_contents import CheckpointContents, CheckpointFile
from deltasnap_core.storage.concurrency import map_concurrently
from deltasnap_core.storage.log_store import LogStore

_FILE_ACTIONS = ("add", "remove")
_ROWS_AT_ONCE = 20_000


def check_pages(store: LogStore, contents: CheckpointContents) -> None:
    """Decode every page with file actions, streaming, with the pages' checksums where the writer left them.

    It costs what reading the checkpoint once costs.
    Errors: CorruptLogError naming the file that is damaged or gone.
    """
    map_concurrently(lambda file: _check(store, file), contents.files_with_file_actions)


def _check(store: LogStore, file: CheckpointFile) -> None:
    columns = [name for name in _FILE_ACTIONS if name in file.schema.names]
    try:
        with store.open(file.file.path) as stream:
            parquet = pq.ParquetFile(stream, page_checksum_verification=True)
            for batch in parquet.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns, use_threads=False):
                batch.validate(full=True)
    except FileNotFoundError as error:
        raise CorruptLogError(path=file.file.path, reason="expected a file of the checkpoint, found none") from error
    except (pa.ArrowException, OSError) as error:
        raise CorruptLogError(path=file.file.path, reason=f"a page cannot be read: {error}") from error
