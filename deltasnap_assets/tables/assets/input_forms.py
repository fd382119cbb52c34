"""Converts stored versions to the type in the annotation of an input.

Rows become a Spark DataFrame, or a table of pyarrow, pandas or polars (small versions do not use Spark). Other values
are passed unchanged. An input annotated `dict[int, ...]` gets a dict by version, also for a single version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, get_args, get_origin

import pyarrow as pa

from deltasnap_assets.runs.planning.names import REFRESH_JOB
from deltasnap_core import DeltaSnapError, LogSegment, SnapshotState
from deltasnap_core.support import rows_in_pandas


class StoredInput(Protocol):
    """A stored version of an asset."""

    def value(self) -> Any:
        """Return a Spark DataFrame, or the value itself."""
        ...

    def arrow(self) -> pa.Table:
        """Return its rows as an Arrow table. Small versions do not use Spark."""
        ...


_FRAMES: Mapping[tuple[str, str], tuple[str, Callable[[StoredInput], Any]]] = {
    ("pyspark", "DataFrame"): ("pyspark.sql.DataFrame", lambda stored: stored.value()),
    ("pyarrow", "Table"): ("pyarrow.Table", lambda stored: stored.arrow()),
    ("pandas", "DataFrame"): ("pandas.DataFrame", lambda stored: rows_in_pandas(stored.arrow())),
    ("polars", "DataFrame"): ("polars.DataFrame", lambda stored: _polars(stored)),
}
_VALUES: Mapping[str, type] = {"log_segment": LogSegment, "computed_state": SnapshotState}

_ANY_VERSION = (
    "a version to load, but this Dagster instance has none yet; the table's sensor, its schedule or the job "
    f"`{REFRESH_JOB}` materializes versions"
)


def not_loadable(asset: str, wanted: str, expected: str) -> DeltaSnapError:
    """Return the error for an asset that cannot be converted to `wanted`, the text of an annotation."""
    return DeltaSnapError(f"{asset} cannot be loaded as {wanted}: expected {expected}.")


def given_as(wanted: object, asset: str, name: str, versions: Mapping[int, StoredInput]) -> Any:
    """Return stored versions as the type `wanted`: one version as a single value, several as a dict by version.

    wanted: the annotation; `Any`: a Spark DataFrame, or the value itself. asset: its name in messages. name: which of
    the five assets it is. versions: read only after the type of each one is checked.
    Errors: DeltaSnapError for an annotation that is not supported; the errors of loading.
    """
    is_dict, inner = _unwrapped(wanted)
    convert = _converter(inner, name)
    if convert is None:
        raise not_loadable(asset, _text(wanted), _expected(name))
    if not is_dict and len(versions) != 1 and inner is not Any:
        text = _text(wanted)
        if not versions:
            raise not_loadable(asset, text, _ANY_VERSION)
        found = f"an input of one version, found {len(versions)}; use the annotation dict[int, {text}] for any number"
        raise not_loadable(asset, text, found)
    loaded = {version: convert(stored) for version, stored in versions.items()}
    return loaded if is_dict or len(loaded) != 1 else next(iter(loaded.values()))


def _unwrapped(wanted: object) -> tuple[bool, object]:
    """Return whether the annotation is a dict by version, and the type of each version."""
    if wanted is dict:
        return True, Any
    if get_origin(wanted) is dict and get_args(wanted)[0] in (int, Any):
        return True, get_args(wanted)[1]
    return False, Any if wanted in (None, object) else wanted


def _converter(wanted: object, name: str) -> Callable[[StoredInput], Any] | None:
    """Return the function that converts a stored version to that type; None: not supported."""
    if wanted is Any or (isinstance(wanted, type) and wanted is _VALUES.get(name)):
        return lambda stored: stored.value()
    found = None if name in _VALUES or not isinstance(wanted, type) else _FRAMES.get(_package_and_name(wanted))
    return None if found is None else found[1]


def _package_and_name(wanted: type) -> tuple[str, str]:
    """Return the names of the type's package and of the type. Comparing names avoids loading an unused library."""
    return wanted.__module__.partition(".")[0], wanted.__name__


def _expected(name: str) -> str:
    one = [_VALUES[name].__name__] if name in _VALUES else [text for text, _ in _FRAMES.values()]
    return f"{', '.join(one)}, or dict[int, ...] of {'it' if len(one) == 1 else 'one of them'} for several versions"


def _text(wanted: object) -> str:
    if isinstance(wanted, type) and get_origin(wanted) is None:
        text, _ = _FRAMES.get(_package_and_name(wanted), (wanted.__qualname__, None))
        return text
    return str(wanted).replace("typing.", "").replace("Dict[", "dict[")


def _polars(stored: StoredInput) -> Any:
    import polars  # noqa: PLC0415  # an extra

    return polars.from_arrow(stored.arrow())
