"""The properties of generated files, as columns of many files at once. Each follows from the number of the file."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.logs.shape import EPOCH_MS

Numbers = NDArray[np.int64]

MAP = pa.map_(pa.string(), pa.string())
PARTITIONS = 100
"""The number of values of a partition column."""

_MAX_COLUMNS_IN_PATH = 3
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), dtype=np.uint8).reshape(256, 2)
_DASHES = (8, 13, 18, 23)
_DAY_MS = 86_400_000
_TIMES = pa.array(np.datetime_as_string(np.datetime64(EPOCH_MS, "ms") + np.arange(10_000) * 60_000)).cast(pa.string())
_WORDS = pa.array([f"{word}-{i:02d}" for i in range(25) for word in ("amber", "cobalt", "jade", "violet")])


def blocks(numbers: Numbers, rows: int) -> Iterator[Numbers]:
    """Split numbers into blocks of `rows`."""
    for start in range(0, len(numbers), rows):
        yield numbers[start : start + rows]


def partition_names(count: int) -> list[str]:
    """Return the names of `count` partition columns."""
    return [f"p{i:02d}" for i in range(count)]


def physical(name: str, *, mapped: bool) -> str:
    """Return the physical name of a column."""
    return f"col-{name}" if mapped else name


def paths(numbers: Numbers, partition_columns: int) -> pa.Array:
    """Return paths in the style of Spark: partition values, task, and an incompressible UUID."""
    if partition_columns > _MAX_COLUMNS_IN_PATH:
        folders = [pc.utf8_slice_codeunits(_uuids(numbers + 1), 0, 2), "/"]
    else:
        folders = []
        for i, name in enumerate(partition_names(partition_columns)):
            folders += [f"{name}=", _partition_values(numbers, i), "/"]
    task = pc.utf8_lpad(_text(numbers % 200), 5, "0")
    return _joined(*folders, "part-", task, "-", _uuids(numbers), ".c000.snappy.parquet")


def partition_values(numbers: Numbers, partition_columns: int, *, mapped: bool = False) -> pa.MapArray:
    """Return partition values in the form of a checkpoint."""
    count, columns = len(numbers), partition_columns
    names = pa.array([physical(name, mapped=mapped) for name in partition_names(columns)], pa.string())
    keys = names.take(pa.array(np.tile(np.arange(columns), count)))
    codes = np.stack([_partition_codes(numbers, i) for i in range(columns)], axis=1) if columns else np.empty((0,))
    offsets = np.arange(count + 1, dtype=np.int32) * columns
    values = _PARTITION_VALUES.take(pa.array(codes.ravel().astype(np.int64)))
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values)


def partition_values_json(numbers: Numbers, partition_columns: int, *, mapped: bool = False) -> pa.Array:
    """Return partition values in the form of a commit."""
    pieces: list[pa.Array | str] = []
    for i, name in enumerate(partition_names(partition_columns)):
        key = physical(name, mapped=mapped)
        pieces += [f'{"," if i else ""}"{key}":"', _partition_values(numbers, i), '"']
    return _joined("{", *pieces, _repeated("}", numbers))


def sizes(numbers: Numbers) -> Numbers:
    """Return sizes in bytes, from 1 KiB to 128 MiB, the same number in each octave."""
    fraction = (_mixed(numbers) >> np.uint64(11)) / 2.0**53
    return np.exp2(10 + 17 * fraction).astype(np.int64)


def records(numbers: Numbers) -> Numbers:
    """Return the number of rows of each file."""
    return 100 + numbers * 31 % 9_900


def deletion_vectors(numbers: Numbers, every: int) -> pa.StructArray:
    """Return the deletion vector of one file in `every`, null for the others; each deletes five rows."""
    vectors = pa.StructArray.from_arrays(
        [
            pa.repeat(pa.scalar("u"), len(numbers)),
            pc.utf8_slice_codeunits(_uuids(numbers + 3), 0, 20),
            pa.repeat(pa.scalar(1, pa.int32()), len(numbers)),
            pa.repeat(pa.scalar(40, pa.int32()), len(numbers)),
            pa.repeat(pa.scalar(5, pa.int64()), len(numbers)),
        ],
        ["storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality"],
    )
    return pc.if_else(pa.array(numbers % every == 0), vectors, pa.scalar(None, vectors.type))


def deletion_vectors_json(numbers: Numbers, every: int) -> pa.Array:
    """Return the same deletion vectors as the end of an action in a commit; empty for files without one."""
    path = pc.utf8_slice_codeunits(_uuids(numbers + 3), 0, 20)
    rest = '","offset":1,"sizeInBytes":40,"cardinality":5}'
    vectors = _joined(',"deletionVector":{"storageType":"u","pathOrInlineDv":"', path, _repeated(rest, numbers))
    return pc.if_else(pa.array(numbers % every == 0), vectors, "")


def stats(numbers: Numbers, width: int, *, mapped: bool = False) -> pa.Array:
    """Return statistics of `width` columns, as JSON."""
    names = _statistics_names(width, mapped=mapped)
    low, high = _bounds(numbers, width)
    count = records(numbers)
    nulls = _text(count // 7)
    null_counts: list[pa.Array | str] = []
    for index, name in enumerate(names):
        null_counts += [f'{"," if index else ""}"{name}":', "0" if index < _NEVER_NULL else nulls]
    return _joined(
        '{"numRecords":', _text(count),
        ',"minValues":', *_values_json(names, low),
        ',"maxValues":', *_values_json(names, high),
        ',"nullCount":{', *null_counts, "}}",
    )  # fmt: skip


def stats_parsed(numbers: Numbers, width: int, *, mapped: bool = False) -> pa.StructArray:
    """Return the same statistics, as a struct."""
    names = _statistics_names(width, mapped=mapped)
    low, high = _bounds(numbers, width)
    count = records(numbers)
    zero, nulls = pa.array(np.zeros_like(count)), pa.array(count // 7)
    null_count = pa.StructArray.from_arrays([zero if at < _NEVER_NULL else nulls for at in range(width)], names)
    return pa.StructArray.from_arrays(
        [pa.array(count), _values_struct(names, low), _values_struct(names, high), null_count],
        ["numRecords", "minValues", "maxValues", "nullCount"],
    )


def statistics_columns(width: int) -> list[tuple[str, str]]:
    """Return the first `width` columns with statistics: name, and type in Delta's schema."""
    return [*_COLUMNS, *((f"n{i:02d}", "long") for i in range(len(_COLUMNS), width))][:width]


_COLUMNS = (("id", "long"), ("event_time", "timestamp"), ("name", "string"), ("amount", "double"))
_NEVER_NULL = 2
"""The number of columns without nulls, the first ones."""
_TIME = 1
"""The place of the column with times."""

_PARTITION_VALUES = pa.array([f"v{i:03d}" for i in range(PARTITIONS)])


def _statistics_names(width: int, *, mapped: bool) -> list[str]:
    return [physical(name, mapped=mapped) for name, _ in statistics_columns(width)]


def _bounds(numbers: Numbers, width: int) -> tuple[list[pa.Array], list[pa.Array]]:
    hashed = (_mixed(numbers) >> np.uint64(20)).astype(np.int64)
    time, word, cents = hashed % 9_000, hashed % 50, hashed % 100_000
    low = [pa.array(numbers * 10_000), _TIMES.take(time), _WORDS.take(word), pa.array(cents / 100)]
    high = [pa.array(numbers * 10_000 + 9_999), _TIMES.take(time + 999), _WORDS.take(word + 50)]
    high.append(pa.array((cents + 50_001) / 100))
    for column in range(len(_COLUMNS), width):
        low.append(pa.array(hashed % (1_000 * column)))
        high.append(pa.array(hashed % (1_000 * column) + 1_000_000))
    return low[:width], high[:width]


def _values_json(names: list[str], values: list[pa.Array]) -> list[pa.Array | str]:
    text: list[pa.Array | str] = []
    for index, (name, value) in enumerate(zip(names, values, strict=True)):
        key = f'{"," if index else "{"}"{name}":'
        if index == _TIME:
            text += [f'{key}"', value, 'Z"']
        else:
            text += [f'{key}"', value, '"'] if pa.types.is_string(value.type) else [key, _text(value)]
    return [*text, "}"]


def _values_struct(names: list[str], values: list[pa.Array]) -> pa.StructArray:
    moments = [_moments(value) if index == _TIME else value for index, value in enumerate(values)]
    return pa.StructArray.from_arrays(moments, names)


def _moments(times: pa.Array) -> pa.Array:
    return times.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))


def _partition_codes(numbers: Numbers, column: int) -> Numbers:
    return numbers // (column + 1) % PARTITIONS


def _partition_values(numbers: Numbers, column: int) -> pa.Array:
    return _PARTITION_VALUES.take(pa.array(_partition_codes(numbers, column)))


def _mixed(numbers: Numbers) -> NDArray[np.uint64]:
    """Hash numbers with splitmix64."""
    with np.errstate(over="ignore"):
        bits = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))


def _uuids(numbers: Numbers) -> pa.Array:
    bits = np.stack([_mixed(numbers), _mixed(-2 - numbers)], axis=1)
    digits = _HEX[bits.view(np.uint8)].reshape(len(numbers), 32)
    text = np.insert(digits, [dash - i for i, dash in enumerate(_DASHES)], ord("-"), axis=1)
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * text.shape[1]
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))


def _text(values: Numbers | pa.Array) -> pa.Array:
    return pc.cast(pa.array(values), pa.string())


def _repeated(text: str, numbers: Numbers) -> pa.Array:
    return pa.repeat(pa.scalar(text), len(numbers))


def _joined(*pieces: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, "")
