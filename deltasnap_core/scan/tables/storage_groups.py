"""The storage bill by partition, by age, and by the writer of the files. The groups add up to the bill, by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.rules.paths import decoded_sql
from deltasnap_core.rules.texts.sql_text import let_sql, quoted, string_sql
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.partition_values import malformed_texts, partition_sql, shown_value
from deltasnap_core.scan.tables.named_files import named_files
from deltasnap_core.scan.tables.storage_bill import ListedStorage, StorageClass, by_path
from deltasnap_core.scan.tables.vacuum_summary import age_days_sql
from deltasnap_core.scan.version import ChangeData, FileHistory, ReferencedFiles

StorageGrouping: TypeAlias = Literal["partition", "age", "writer"]
"""How to group the files of a bill."""

_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_COMMIT = string_sql(rf"^{LOG_FOLDER}/([0-9]{{20}})[.]json$")
# As a tombstone of the time `-version`: of a name, the latest one counts. That is the first version with it.
_ADDED = "inline(array(struct(add.*, -version as deletionTimestamp)))"
_RECORDED = pa.schema([("path", pa.string()), ("version", pa.int64())])


def grouped_bytes(files: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return a row for each group: `by`, num_files, the bytes of each class (0: none), total_bytes.

    files: class, size, and the columns of `by`. A sum beyond 64 bits is null.
    """
    sizes = {f"{each}_bytes": f"if(class = '{each}', size, 0L)" for each in StorageClass} | {"total_bytes": "size"}
    sums = [f"try_sum({size}) as {name}" for name, size in sizes.items()]
    return aggregated(files, by, *map(F.expr, ["count(1) as num_files", *sums]))


def bytes_by_age(storage: ListedStorage, now_ms: int) -> DataFrame:
    """Return the bytes by `age_days`, one of AGES_DAYS; null: unknown."""
    removed = f"if(class in ('{StorageClass.TIME_TRAVEL}', '{StorageClass.EXPIRED}'), deletion_timestamp, null)"
    age = age_days_sql(f"{now_ms}L - unix_millis(coalesce({removed}, modification_time))")
    return grouped_bytes(storage.files.selectExpr("class", "size", f"{age} as age_days"), ["age_days"])


def bytes_by_partition(storage: ListedStorage) -> DataFrame:
    """Return the bytes by `partition`: a struct of the typed partition columns; null: of files in no partition.

    The partition of a file that the log does not name is in the names of its folders, as Hive writes them.
    """
    columns = storage.table.columns.partition
    keyed = storage.names.where("partitionValues is not null").selectExpr("explode(keys) as key", "partitionValues")
    of_log = by_path(storage.listed, keyed, "any_value(partitionValues, true) as of_log")
    rows = storage.files.join(of_log, "path", "left").selectExpr(
        "class", "size", f"coalesce(of_log, {_of_folders(storage.table)}) as partitionValues"
    )
    values = [f"{shown_value(column)} as {quoted(column.name)}" for column in columns]
    typed = rows.selectExpr(
        *("class", "size", f"if(partitionValues is null, null, struct({', '.join(values)})) as partition"),
        f"{malformed_texts(columns)} as malformed",
    )
    groups = grouped_bytes(typed, ["partition", "malformed"]).drop("malformed")
    # Only now, so that two of these are two partitions.
    shown = partition_sql((column, f"partition.{quoted(column.name)}") for column in columns)
    return groups.withColumn("partition", F.expr(f"if(partition is null, null, {shown})"))


def bytes_by_writer(
    storage: ListedStorage, history: FileHistory, change_data: ChangeData, commits: DataFrame, cache: StateCache
) -> DataFrame:
    """Return the bytes by `operation` and `job` of the commit that made the files; null: unknown, or no commit did.

    change_data: as in ReferencedFiles. commits: columns as in HISTORY. cache: as for `named_files`.
    """
    first = by_path(storage.listed, _first_versions(storage, history, change_data, cache), "min(version) as first")
    versions = storage.files.join(first, "path", "left").selectExpr(
        *("class", "size"), f"coalesce(first, try_cast(regexp_extract(path, {_COMMIT}, 1) as bigint)) as version"
    )
    made = commits.selectExpr("version", "operation", "coalesce(job['jobName'], job['jobId']) as job")
    # RESTORE adds files that an earlier commit made.
    is_known = f"class = '{StorageClass.LOG}' or operation is distinct from 'RESTORE'"
    writers = (f"if({is_known}, {name}, null) as {name}" for name in ("operation", "job"))
    groups = versions.join(made, "version", "left").selectExpr("class", "size", *writers)
    return grouped_bytes(groups, ["operation", "job"])


def _first_versions(
    storage: ListedStorage, history: FileHistory, change_data: ChangeData, cache: StateCache
) -> DataFrame:
    """Return the first version with each file: key, version (-1: it is older than the history)."""
    added = [] if history.events is None else [history.events.where("add.path is not null").selectExpr(_ADDED)]
    known = ReferencedFiles(files=[history.files], tombstones=added, unread=None)
    names, _ = named_files(storage.table, storage.keys, known, cache)
    rows = [{"path": path, "version": version} for path, version, _ in change_data]
    recorded = arrow_rows(storage.table.spark, pa.Table.from_pylist(rows, _RECORDED))
    of_feed = recorded.selectExpr(f"explode({storage.keys.of_logged('path')}) as key", "version")
    version = f"coalesce(-deleted_at, {0 if history.version == 0 else -1}L) as version"
    return names.selectExpr("explode(keys) as key", version).unionByName(of_feed)


def _of_folders(table: ScannedTable) -> str:
    """Return SQL for the partition values in the names of the folders of `path`; null: it is in no partition."""
    columns = table.columns.partition
    if not columns:
        return "cast(null as map<string, string>)"
    folders = "split(regexp_extract(path, '^(.*)/', 1), '/')"
    decoded = f"transform({folders}, folder -> {decoded_sql('folder', table.table_path)})"
    parts, entries = [], []
    for column in columns:
        start = f"{column.physical_name}="
        part = f"get(filter(folders, folder -> startswith(folder, {string_sql(start)})), 0)"
        parts.append(f"{part} is not null")
        value = f"nullif(substring({part}, {len(start) + 1}), '{_NO_VALUE}')"
        entries += [string_sql(column.physical_name), value]
    return let_sql("folders", decoded, f"if({' and '.join(parts)}, map({', '.join(entries)}), null)")
