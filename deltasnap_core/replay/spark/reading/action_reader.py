"""Reads the file actions of a checkpoint and of commits as DataFrames, with their keys.

Every frame has the columns of FULL. Frames of commits also have commit_version (long) and line_number (int; a decimal
if commits are read by path: any numbers that order the lines of a commit). Delta's `fileIndices`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructField, StructType, VariantType

from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, CheckpointFile
from deltasnap_core.log.commits.action_lines import FILE_ACTIONS, UNREAD_LINES_SCHEMA, lines_with
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.replay.spark.reading.file_action_layout import keyed_measures, measured
from deltasnap_core.replay.spark.reading.parsed_statistics import as_texts, has_all, narrowed
from deltasnap_core.replay.spark.reading.schemas import ADD, DELETION_VECTOR, REMOVE
from deltasnap_core.replay.spark.session.local_rows import FAIL_FAST, arrow_rows
from deltasnap_core.replay.spark.session.spark_files import SparkFiles, file_reader
from deltasnap_core.rules.file_actions import KEY_FIELDS, file_vector_id_sql, one_action_sql
from deltasnap_core.rules.paths import canonical_path_sql, path_key_sql
from deltasnap_core.rules.texts.statistics_schema import StatisticPath, StatsPolicy, text_schema

PARSED = "parsed_statistics"
"""A field of `add`: some statistics as values, in the type of `text_schema`; null: use the JSON."""

_PLACE = ("commit_version", "line_number")
_ROW_BITS = 33  # in monotonically_increasing_id(): the bits above are the number of the task


def _only(action: StructType, *names: str, vector: tuple[str, ...]) -> StructType:
    deletion_vector = StructType([DELETION_VECTOR[name] for name in vector])
    return StructType([*(action[name] for name in names), StructField("deletionVector", deletion_vector)])


MEASURED_ADD = _only(ADD, "path", "size", "stats", vector=(*KEY_FIELDS, "cardinality"))
MEASURED_REMOVE = _only(REMOVE, "path", "deletionTimestamp", vector=KEY_FIELDS)
MEASURED_FILE_ACTIONS = StructType([StructField("add", MEASURED_ADD), StructField("remove", MEASURED_REMOVE)])
"""Only the fields that the measures need."""


_NUM_RECORDS = StructType([StructField("numRecords", LongType())])
_NO_LIMIT = str(2**31 - 1)
# The limits of a line were checked when it was read, so Spark's parser has none.
_OF_LINES = {**FAIL_FAST, "maxNestingDepth": _NO_LIMIT, "maxNumLen": _NO_LIMIT, "maxStringLen": _NO_LIMIT}
# In the form that `num_records_sql` reads fast.
_NUM_RECORDS_AS_JSON = """concat('{"numRecords":', add.stats_parsed.numRecords, ',"nullCount":{}}')"""
# In UTC with a literal zone: Spark's old formatter (`spark.sql.legacy.timeParserPolicy`) writes a zone in another form.
_AS_JSON = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "timeZone": "UTC"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionReader:
    """Reads the file actions of one table.

    parsed: statistics that `add` gets as PARSED, in place of their JSON, if a checkpoint has them as a struct.
    """

    spark: SparkSession
    files: SparkFiles
    log_path: str
    stats: StatsPolicy = StatsPolicy.ALL
    parsed: frozenset[StatisticPath] = frozenset()

    @property
    def _is_measured(self) -> bool:
        return self.stats is StatsPolicy.NUM_RECORDS

    @property
    def add_schema(self) -> StructType:
        """The type of `add` in the frames of this reader."""
        return MEASURED_ADD if self._is_measured else ADD

    @property
    def remove_schema(self) -> StructType:
        """The type of `remove` in the frames of this reader."""
        return MEASURED_REMOVE if self._is_measured else REMOVE

    @property
    def schema(self) -> StructType:
        """The type of both file actions: the columns of a checkpoint, or the keys of a commit line."""
        return StructType([StructField("add", self.add_schema), StructField("remove", self.remove_schema)])

    def checkpoint_actions(self, contents: CheckpointContents) -> DataFrame | None:
        """Return the file actions of a checkpoint (FULL), which are reconciled already. None: it has none.

        Statistics are JSON even if the checkpoint has them only as a struct.
        """
        shapes = groupby(sorted(contents.files_with_file_actions, key=_stats_shape), key=_stats_shape)
        frames = [self._of_parts(list(files)) for _, files in shapes]
        lines = lines_with(contents.lines, *FILE_ACTIONS)
        if lines.num_rows:
            frames.append(self._of_lines(lines, is_large=True).drop(*_PLACE))
        return self._keyed(frames) if frames else None

    def commit_actions(self, batch: CommitBatch, names: Sequence[str] = FILE_ACTIONS) -> DataFrame | None:
        """Return the file actions of commits (FULL, commit_version, line_number) in any order. None: there are none.

        names: of the actions; others may be among them.
        """
        frames = []
        lines = batch.lines_with(*names)
        if lines.num_rows:
            frames.append(self._of_lines(lines, is_large=batch.is_large))
        if batch.large:
            # Each line was checked. The other lines are not parsed: they are blank, or do not have the names as keys.
            text = self._large_commits(self.files.readable(batch.large))
            parts = (r"\u", *(f'"{name}"' for name in names))  # keys may be escaped
            is_wanted = reduce(Column.__or__, (F.contains("line", F.lit(part)) for part in parts))
            frames.append(self._parsed(text.where(is_wanted)))
        if not frames:
            return None
        return self._keyed(frames, *_PLACE)

    def commit_keys(self, batch: CommitBatch) -> DataFrame | None:
        """Return the keys (path_key, dv_id) of the file actions of commits, without parsing the lines again.

        None: there are none, or too many to hold.
        """
        if batch.measures is None or not batch.measures.num_rows:
            return None
        rows = self._of_arrow(batch.measures.select(["path", "dv_id"]), is_large=batch.is_large)
        return rows.selectExpr(f"{path_key_sql('path', self.log_path)} as path_key", "dv_id")

    def commit_measures(self, batch: CommitBatch) -> DataFrame | None:
        """Return the measured file actions of commits (commit_version, line_number, MEASURED). None: there are none."""
        if batch.measures is None:
            actions = self.commit_actions(batch)
            return None if actions is None else measured(actions, *_PLACE)
        if not batch.measures.num_rows:
            return None
        rows = self._of_arrow(batch.measures, is_large=batch.is_large)
        return keyed_measures(rows, path_key_sql("path", self.log_path), *_PLACE)

    def _large_commits(self, paths: list[str]) -> DataFrame:
        """Return the lines of commits that are read by path: `_PLACE`, line."""
        text = file_reader(self.spark).text(paths, lineSep="\n")
        metadata = text.metadataColumn("_metadata")
        return _lines_of(text, metadata["file_name"], metadata["file_block_start"])

    def _of_arrow(self, rows: pa.Table, *, is_large: bool) -> DataFrame:
        # One partition satisfies every grouping: small commits are never shuffled.
        frame = arrow_rows(self.spark, rows)
        return frame if is_large else frame.coalesce(1)

    def _keyed(self, frames: Iterable[DataFrame], *others: str) -> DataFrame:
        if self.parsed:
            nothing = F.from_json(F.lit(None).cast("string"), text_schema(self.parsed))
            frames = [_with_parsed(frame, nothing) for frame in frames]
        actions = with_keys(reduce(DataFrame.unionByName, frames), self.log_path, *others)
        if self.stats is not StatsPolicy.NONE:
            return actions
        without_stats = F.col("add").withField("stats", F.lit(None).cast("string"))
        return actions.withColumn("add", F.when(F.col("add.path").isNotNull(), without_stats))

    def _of_lines(self, lines: pa.Table, *, is_large: bool) -> DataFrame:
        return self._parsed(self._of_arrow(lines.select(UNREAD_LINES_SCHEMA.names), is_large=is_large))

    def _parsed(self, lines: DataFrame) -> DataFrame:
        """Return the file actions of lines that were checked, so that Spark's parser reads them correctly.

        One exception: Spark keeps both values of a duplicate key in a map. This function keeps the last one.
        """
        action = F.from_json("line", self.schema, _OF_LINES)
        parsed = lines.select(*_PLACE, action.alias("action")).select(*_PLACE, "action.add", "action.remove")
        if self._is_measured:
            return parsed
        return parsed.selectExpr(*_PLACE, _with_unique_keys("add"), _with_unique_keys("remove"))

    def _of_parts(self, parts: list[CheckpointFile]) -> DataFrame:
        rows = self._parquet_actions(parts)
        if self._is_measured or not parts[0].has_hidden_nulls:
            return rows
        unknown = F.lit(None).cast("map<string,string>").alias("partitionValues")
        fields = [unknown if n == "partitionValues" else F.col(f"remove.{n}") for n in self.remove_schema.names]
        return rows.withColumn("remove", F.when(F.col("remove.path").isNotNull(), F.struct(*fields)))

    def _parquet_actions(self, parts: list[CheckpointFile]) -> DataFrame:
        paths = self.files.readable([part.file for part in parts])
        struct = parts[0].stats_parsed
        if self.parsed and struct is not None and has_all(struct, self.parsed):
            statistics = narrowed(struct, self.parsed)
            texts = {"stats": "cast(null as string)", PARSED: as_texts("add.stats_parsed", statistics)}
            return self._without_json(paths, statistics, texts)
        if self._is_measured and parts[0].has_num_records:
            return self._without_json(paths, _NUM_RECORDS, {"stats": _NUM_RECORDS_AS_JSON})
        parsed = self._stats_parsed(parts[0], paths[0])
        if parsed is None:
            return self._read(paths, self.add_schema)
        rows = self._read(paths, [*self.add_schema, StructField("stats_parsed", parsed)])
        if self._is_measured and "numRecords" in parsed.names:
            stats = F.coalesce(F.expr(_NUM_RECORDS_AS_JSON), "add.stats")
        else:
            stats = F.coalesce("add.stats", F.to_json("add.stats_parsed", _AS_JSON))
        whole = F.col("add").withField("stats", stats).dropFields("stats_parsed")
        return rows.select(whole.alias("add"), "remove")

    def _without_json(self, paths: list[str], statistics: StructType, texts: Mapping[str, str]) -> DataFrame:
        """Return the file actions without reading their JSON, from some statistics of the struct.

        texts: SQL for fields of `add` that are not read as they are.
        """
        fields = [field for field in self.add_schema if field.name not in texts]
        rows = self._read(paths, [*fields, StructField("stats_parsed", statistics)])
        names = dict.fromkeys((*self.add_schema.names, *texts))
        whole = ", ".join(f"{texts.get(name, f'add.{name}')} as {name}" for name in names)
        # Also for a remove: with a condition around the struct, Spark would read all fields.
        return rows.selectExpr(f"struct({whole}) as add", "remove")

    def _read(self, paths: list[str], add: Iterable[StructField]) -> DataFrame:
        schema = StructType([StructField("add", StructType([*add])), StructField("remove", self.remove_schema)])
        return file_reader(self.spark).schema(schema).parquet(*paths)

    def _stats_parsed(self, part: CheckpointFile, path: str) -> StructType | None:
        """Return the type to read `add.stats_parsed` with; None: read the JSON instead, or no statistics."""
        if part.stats_parsed is None:
            return None
        if self.stats is StatsPolicy.NONE:
            return None
        if self.stats is StatsPolicy.NUM_RECORDS and part.stats_parsed.get_field_index("numRecords") >= 0:
            return _NUM_RECORDS
        if part.has_stats:
            return None
        (found,) = file_reader(self.spark).parquet(path).select("add.stats_parsed").schema.fields
        return _with_text(found.dataType)  # type: ignore[return-value]


def _with_text(statistics: DataType) -> DataType:
    """Return a type with text for bytes, which have no statistics. Writers may omit that bytes are text.

    It has no variants: their bounds are Z85 in JSON, which Spark does not write.
    Source: PROTOCOL.md, Statistics for Variant Columns; Shredded Variant data in Parquet.
    """
    if isinstance(statistics, StructType):
        fields = ((f.name, _with_text(f.dataType)) for f in statistics if not _is_variant(f.dataType))
        # Spark cannot read a struct of which no field is left.
        return StructType([StructField(name, kind) for name, kind in fields if kind != StructType([])])
    return StringType() if isinstance(statistics, BinaryType) else statistics


def _is_variant(data_type: DataType) -> bool:
    """Return whether a type is a variant, or the fields that store it, shredded or not."""
    if not isinstance(data_type, StructType):
        return isinstance(data_type, VariantType)
    kinds = {field.name: type(field.dataType) for field in data_type}
    are_binary = (kinds.pop("metadata", None), kinds.pop("value", BinaryType)) == (BinaryType, BinaryType)
    return are_binary and len(data_type.fields) > 1 and kinds.keys() <= {"typed_value"}


def _with_parsed(actions: DataFrame, parsed: Column) -> DataFrame:
    """Return actions whose `add` has PARSED, null if it was missing."""
    (add,) = (field.dataType for field in actions.schema if field.name == "add")
    if isinstance(add, StructType) and PARSED in add.names:
        return actions
    return actions.withColumn("add", F.when(F.col("add").isNotNull(), F.col("add").withField(PARSED, parsed)))


def with_keys(actions: DataFrame, log_path: str, *others: str) -> DataFrame:
    """Add the canonical path and the key of the logical file (`path_keys`). Rows without a file action are left out.

    others: columns to keep before those of FULL.
    If a row has both an `add` and a `remove`, the query raises an error when Spark runs it.
    Source: PROTOCOL.md, Action Reconciliation; Deletion Vectors, Derived Fields.
    """
    # SQL text, not Column calls: for a small table, building Columns takes longer than the query itself. The same holds
    # for all code that runs for every snapshot. Use one projection: Spark prunes fields of a struct through one
    # projection, not through two.
    raw = "coalesce(add.path, remove.path)"
    of_files = actions.where("add.path is not null or remove.path is not null").where(one_action_sql())
    return of_files.selectExpr(
        *others,
        f"{path_key_sql(raw, log_path)} as path_key",
        f"{file_vector_id_sql()} as dv_id",
        "add",
        "remove",
        f"{canonical_path_sql(raw, log_path)} as path",
    )


def _lines_of(text: DataFrame, file_name: Column, block_start: Column) -> DataFrame:
    """Return the lines of commits with their `_PLACE`, by the names of their files.

    block_start: of the part of a file that one task reads, in bytes. The rows of a task are in file order.
    """
    row_of_task = F.monotonically_increasing_id().bitwiseAND((1 << _ROW_BITS) - 1)
    number = block_start.cast("decimal(19)") * F.lit(1 << _ROW_BITS).cast("decimal(10)") + row_of_task
    return text.select(
        F.substring(file_name, 1, 20).cast("long").alias("commit_version"),
        number.alias("line_number"),
        F.col("value").alias("line"),
    )


def _stats_shape(part: CheckpointFile) -> str:
    return f"{part.has_stats} {part.has_num_records} {part.has_hidden_nulls} {part.stats_parsed}"


def _with_unique_keys(kind: str) -> str:
    fields = []
    for field in (ADD if kind == "add" else REMOVE).names:
        value = f"{kind}.{field}"
        keys = f"map_keys({value})"
        if field in ("partitionValues", "tags"):
            last = f"k -> element_at(filter(map_entries({value}), e -> e.key = k), -1).value"
            unique = f"map_from_arrays(array_distinct({keys}), transform(array_distinct({keys}), {last}))"
            value = f"case when size({value}) = size(array_distinct({keys})) then {value} else {unique} end"
        fields.append(f"'{field}', {value}")
    return f"case when {kind} is not null then named_struct({', '.join(fields)}) end as {kind}"
