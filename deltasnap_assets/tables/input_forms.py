"""The type that an input is annotated with, and stored versions given as that type.

A DataFrame can be had from Spark as it is, or as a table of pyarrow, pandas or polars; a value as what it is. Annotated
`dict[int, ...]` of one of them, an input is a dict by version, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin

from deltasnap_core import DeltaSnapError, LogSegment, SnapshotState

_FRAMES: Mapping[tuple[str, str], tuple[str, Callable[[Any], Any]]] = {
    ("pyspark", "DataFrame"): ("pyspark.sql.DataFrame", lambda frame: frame),
    ("pyarrow", "Table"): ("pyarrow.Table", lambda frame: frame.toArrow()),
    ("pandas", "DataFrame"): ("pandas.DataFrame", lambda frame: frame.toPandas()),
    ("polars", "DataFrame"): ("polars.DataFrame", lambda frame: _polars(frame)),
}
_VALUES: Mapping[str, type] = {"log_segment": LogSegment, "computed_state": SnapshotState}

_ANY_VERSION = (
    "a version to load, and this Dagster instance knows of none yet; the table's sensor, its schedule or `deltasnap "
    "refresh` materializes some"
)


class InputTypeError(DeltaSnapError):
    """The asset cannot be given as `wanted`, the text of an annotation: expected `expected`."""

    def __init__(self, *, asset: str, wanted: str, expected: str) -> None:
        self.asset = asset
        self.wanted = wanted
        self.expected = expected
        super().__init__(f"{asset} cannot be loaded as {wanted}: expected {expected}.")


def given_as(wanted: object, asset: str, name: str, versions: Mapping[int, Callable[[], Any]]) -> Any:
    """Return stored versions of an asset as the type `wanted`: one version as just that, several as a dict by version.

    wanted: the annotation; `Any`: a DataFrame of Spark, or the value there is. asset: as messages call it, name: which
    of the five it is. versions: what loads each of them, called only once all of it is known to fit.
    Errors: `InputTypeError`; those of loading.
    """
    is_dict, inner = _unwrapped(wanted)
    convert = _converter(inner, name)
    if convert is None:
        raise InputTypeError(asset=asset, wanted=_text(wanted), expected=_expected(name))
    if not is_dict and len(versions) != 1 and inner is not Any:
        text = _text(wanted)
        if not versions:
            raise InputTypeError(asset=asset, wanted=text, expected=_ANY_VERSION)
        found = f"an input of one version, not of {len(versions)}; annotated dict[int, {text}] it may be of any number"
        raise InputTypeError(asset=asset, wanted=text, expected=found)
    loaded = {version: convert(load()) for version, load in versions.items()}
    return loaded if is_dict or len(loaded) != 1 else next(iter(loaded.values()))


def _unwrapped(wanted: object) -> tuple[bool, object]:
    """Whether a dict by version is wanted, and the type of what is wanted of each version."""
    if wanted is dict:
        return True, Any
    if get_origin(wanted) is dict and get_args(wanted)[0] in (int, Any):
        return True, get_args(wanted)[1]
    return False, Any if wanted in (None, object) else wanted


def _converter(wanted: object, name: str) -> Callable[[Any], Any] | None:
    """What makes that type of what is stored; None: nothing does."""
    if wanted is Any or (isinstance(wanted, type) and wanted is _VALUES.get(name)):
        return lambda value: value
    found = None if name in _VALUES or not isinstance(wanted, type) else _FRAMES.get(_package_and_name(wanted))
    return None if found is None else found[1]


def _package_and_name(wanted: type) -> tuple[str, str]:
    """By name, so that a library which nobody asks for is not loaded."""
    return wanted.__module__.partition(".")[0], wanted.__name__


def _expected(name: str) -> str:
    one = [_VALUES[name].__name__] if name in _VALUES else [text for text, _ in _FRAMES.values()]
    return f"{', '.join(one)}, or dict[int, ...] of {'it' if len(one) == 1 else 'one of them'} for several versions"


def _text(wanted: object) -> str:
    if isinstance(wanted, type) and get_origin(wanted) is None:
        text, _ = _FRAMES.get(_package_and_name(wanted), (wanted.__qualname__, None))
        return text
    return str(wanted).replace("typing.", "").replace("Dict[", "dict[")


def _polars(frame: Any) -> Any:
    import polars  # noqa: PLC0415  # an extra

    return polars.from_arrow(frame.toArrow())
