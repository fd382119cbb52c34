"""The partition values of many files, as the log has them, by Arrow: which there are, and who has which."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PartitionTexts = tuple[str | None, ...]
"""The partition values of a file in the order of some columns: texts; null where the file has none."""

Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_MOST_TO_COUNT = 1 << 22


@dataclass(frozen=True, slots=True)
class CodedPartitions:
    """The partition values of rows: for each row its place in `texts`."""

    codes: Codes
    texts: tuple[PartitionTexts, ...]

    def among(self, accepted: Collection[PartitionTexts]) -> Mask:
        """Return which rows have values that are accepted."""
        is_accepted = np.array([texts in accepted for texts in self.texts], np.bool_)
        found: Mask = is_accepted[self.codes]
        return found


def coded(columns: Iterable[pa.DictionaryArray], rows: int) -> CodedPartitions:
    """Return the partition values of so many rows from those of each column."""
    codes: Codes = np.zeros(rows, np.int64)
    texts: list[PartitionTexts] = [()] if rows else []
    for column in columns:
        values = [None, *column.dictionary.to_pylist()]
        places = pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False) + 1
        distinct, codes = _numbered(codes * len(values) + places, len(texts) * len(values))
        texts = [(*texts[code // len(values)], values[code % len(values)]) for code in distinct.tolist()]
    return CodedPartitions(codes, tuple(texts))


def joined(parts: Sequence[CodedPartitions]) -> CodedPartitions:
    """Return the partition values of the rows of some parts, one after another."""
    places: dict[PartitionTexts, int] = {}
    codes = [
        np.array([places.setdefault(texts, len(places)) for texts in part.texts], np.int64)[part.codes]
        for part in parts
    ]
    return CodedPartitions(np.concatenate(codes) if codes else np.zeros(0, np.int64), tuple(places))


def columns_of_maps(maps: pa.MapArray, names: Iterable[str]) -> Iterator[pa.DictionaryArray]:
    """Yield the value that each map has for each of some keys, the first where it has several.

    maps: from dictionaries to dictionaries of texts. Errors: pa.ArrowInvalid where they are not whole.
    """
    offsets = maps.offsets.to_numpy()
    lengths = np.where(maps.is_valid(), np.diff(offsets), 0)
    entries = slice(int(offsets[0]), int(offsets[0]) + int(lengths.sum()))
    rows = np.repeat(np.arange(len(maps)), lengths)
    keys, items = maps.keys[entries], maps.items[entries]
    for values in (keys, items):
        values.validate(full=True)  # of damaged pages pyarrow gives places that no dictionary has
    key_of = keys.indices.to_numpy()
    known = keys.dictionary.to_pylist()
    item_of = pc.fill_null(items.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    for name in names:
        has_name = np.array([key == name for key in known], np.bool_)[key_of]
        places: Codes = np.full(len(maps), -1, np.int64)
        places[rows[has_name][::-1]] = item_of[has_name][::-1]
        indices = pa.array(places, mask=places < 0)
        yield pa.DictionaryArray.from_arrays(indices, items.dictionary)


def _numbered(codes: Codes, most: int) -> tuple[Codes, Codes]:
    """Return the codes that occur, and of each code its place among them. most: no code is that high."""
    if most > _MOST_TO_COUNT:
        distinct, places = np.unique(codes, return_inverse=True)
        return distinct, places
    occurs = np.zeros(most, np.bool_)
    occurs[codes] = True
    return np.flatnonzero(occurs), (occurs.cumsum() - 1)[codes]
