"""The files that a checkpoint adds and that some partition values leave, without Spark.

Their partition values are read first: of most tables dictionaries and some bytes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.log.checkpoint_contents import UNREADABLE, CheckpointFile
from deltasnap_core.log.partition_texts import CodedPartitions, Mask, PartitionTexts, coded, columns_of_maps, joined
from deltasnap_core.replay.driver.checkpoint_shares import Share, leaves_of, map_shares, shares_of, unreadable
from deltasnap_core.rules.measures import check_one_action
from deltasnap_core.storage.log_store import LogStore

_VALUES = "partitionValues"


@dataclass(frozen=True, slots=True)
class PartitionedShare:
    """A share of a checkpoint and the partition values of its rows, null where a row is no `add`."""

    share: Share
    values: CodedPartitions


def partitioned_shares(
    store: LogStore, parts: Sequence[CheckpointFile], names: Sequence[str]
) -> list[PartitionedShare] | None:
    """Return the shares of the files of a checkpoint with the values of partition columns, by their physical names.

    None: partition values are no maps of texts there. Errors: CorruptLogError naming the file that cannot be read.
    """
    with_adds = [part for part in parts if "add" in part.schema.names]
    if not all(_has_maps_of_texts(part) for part in with_adds):
        return None

    def read(share: Share, use_threads: bool) -> PartitionedShare:
        batches = share.batches(store, use_threads=use_threads, dictionaries=share.columns)
        return PartitionedShare(share, joined([_coded(share, batch, names) for batch in batches]))

    return map_shares(
        [share for part in with_adds for share in shares_of(part, leaves_of(part, [f"add.{_VALUES}"]))], read
    )


def accepted_adds(
    store: LogStore,
    shares: Sequence[PartitionedShare],
    accepted: Collection[PartitionTexts],
    fields: Sequence[str],
    sieve: Callable[[pa.StructArray], pa.StructArray],
) -> list[pa.StructArray]:
    """Return `add`, with some of its fields as far as a file has them, where the partition values are accepted.

    sieve: leaves some of what was read, in several threads.
    Errors: those of `sieve`; CorruptLogError naming the file that cannot be read.
    """

    def read(found: tuple[Share, Mask], use_threads: bool) -> list[pa.StructArray]:
        return [sieve(adds) for adds in _adds(store, *found, use_threads=use_threads)]

    masks = ((each.share, each.values.among(accepted)) for each in shares)
    wanted = [found for share, mask in masks for found in _groups_with_any(share, mask, fields)]
    return list(chain.from_iterable(map_shares(wanted, read)))


def _adds(store: LogStore, share: Share, mask: Mask, *, use_threads: bool) -> Iterator[pa.StructArray]:
    start = 0
    for batch in share.batches(store, use_threads=use_threads):
        end = start + batch.num_rows
        try:
            check_one_action(*(_paths(batch, name) for name in ("add", "remove") if name in batch.column_names))
            rows = batch.filter(pa.array(mask[start:end]))["add"].combine_chunks()
            yield rows.filter(pc.struct_field(rows, "path").is_valid())
        except UNREADABLE as error:
            raise unreadable(share.part.file.path, error) from error
        start = end


def _paths(batch: pa.Table, name: str) -> pa.Array:
    return pc.struct_field(batch[name].combine_chunks(), "path")


def _groups_with_any(share: Share, mask: Mask, fields: Sequence[str]) -> Iterator[tuple[Share, Mask]]:
    """Yield the row groups that have wanted rows, as a share of their own, with what is wanted of them."""
    groups: list[int] = []
    masks: list[Mask] = []
    start = 0
    for group in share.row_groups:
        end = start + share.part.metadata.row_group(group).num_rows
        if mask[start:end].any():
            groups.append(group)
            masks.append(mask[start:end])
        start = end
    if groups:
        columns = leaves_of(share.part, ["remove.path", *(f"add.{field}" for field in fields)])
        yield replace(share, columns=columns, row_groups=tuple(groups)), np.concatenate(masks)


def _has_maps_of_texts(part: CheckpointFile) -> bool:
    add = part.schema.field("add").type
    index = add.get_field_index(_VALUES)
    kind = add.field(index).type if index >= 0 else None
    return kind is not None and pa.types.is_map(kind) and {kind.key_type, kind.item_type} == {pa.string()}


def _coded(share: Share, batch: pa.Table, names: Sequence[str]) -> CodedPartitions:
    try:
        maps = pc.struct_field(batch["add"].combine_chunks(), _VALUES)
        return coded(columns_of_maps(maps, names), batch.num_rows)
    except UNREADABLE as error:
        raise unreadable(share.part.file.path, error) from error
