"""Runs a query over a log, on either engine, again without its checkpoint if it finds the checkpoint damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from deltasnap_core.errors import CorruptLogError, UnsupportedServerError
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.replay.spark.session.spark_failures import translated

T = TypeVar("T")


def with_fallback(
    log: LoadedLog, query: Callable[[LoadedLog], T], fall_back: Callable[[LoadedLog, CorruptLogError], LoadedLog]
) -> T:
    """Return the result of a query over a log, by an older checkpoint or the commits alone if necessary.

    fall_back: returns the same version without the damaged checkpoint, or raises; see LogLoader.fall_back.
    Errors: CorruptLogError naming the file, if nothing can replace it; UnsupportedServerError if Spark lacks its codec.
    """
    while True:
        try:
            with translated(log.files):
                return query(log)
        except CorruptLogError as error:
            log = fall_back(log, error)
        except UnsupportedServerError as error:
            if log.checkpoint is None:
                raise
            try:  # the checkpoint may be sound, but the commits may replace it all the same
                log = fall_back(log, CorruptLogError(path=log.checkpoint.paths[0], reason=str(error)))
            except CorruptLogError:
                raise error from None
