"""Checks whether the rows of earlier versions can be read with the schema of a later version."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CharType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from deltasnap_core.errors import CorruptLogError, RowChangesError
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.properties.table_config import ColumnMappingMode, column_mapping_mode
from deltasnap_core.protocol.schema_text import FIELD_ID, PHYSICAL_NAME, TYPE_CHANGES, type_name
from deltasnap_core.replay.spark.reading.table_schema import schema_of
from deltasnap_core.scan.changes.changed_rows import CHANGE_COLUMNS
from deltasnap_core.scan.physical_schema import OWN_PREFIX

_INTEGERS: Sequence[type[DataType]] = (ByteType, ShortType, IntegerType, LongType)
_FLOATS: Sequence[type[DataType]] = (FloatType, DoubleType)


def _is_reserved(name: str) -> bool:
    return name in CHANGE_COLUMNS or name.startswith(OWN_PREFIX)


def check_schemas(metadata: Mapping[int, Metadata], *, path: str, deleting: Collection[int]) -> None:
    """Raise RowChangesError if rows of some version cannot be read with the schema of the last version.

    New columns, types that became wider, and columns that were dropped from a table without column mapping are fine:
    the rows have the columns of the last version. With column mapping in one of two versions, a column may be neither
    renamed nor dropped, as in Delta: when column mapping ends, earlier files still have their own names.
    metadata: by version, ascending. path: of the table. deleting: the versions that delete rows of earlier files.
    Source: PROTOCOL.md, Column Mapping; Type Widening.
    """
    versions = [*metadata]
    last = versions[-1]
    later, mode = _schema(metadata[last], last, path), _mode(metadata[last])
    reserved = sorted({field.name for field in later if _is_reserved(field.name.lower())})
    if reserved:
        reason = f"the table has the column {reserved[0]}, a name that row changes use for their own columns"
        raise RowChangesError(path=path, version=last, reason=reason)
    for before, changed in zip(reversed(versions[:-1]), reversed(versions[1:]), strict=True):
        if metadata[before] is metadata[changed]:
            continue
        earlier = _schema(metadata[before], before, path)
        problem = next(_problems(earlier, _mode(metadata[before]), later, mode, ""), None)
        if problem is not None:
            reason = (
                f"it changes the schema so that rows before it cannot be read with the schema of version {last} "
                f"({problem}). "
            )
            if changed in deleting:
                reason += (
                    f"It deletes such rows, so its own changes cannot be read; those up to version {before}, and those "
                    f"from version {changed + 1} on, can be read separately"
                )
            else:
                reason += f"Read the versions up to {before} and those from {changed} on separately"
            raise RowChangesError(path=path, version=changed, reason=reason)


def _problems(
    earlier: StructType, earlier_mode: ColumnMappingMode, later: StructType, later_mode: ColumnMappingMode, above: str
) -> Iterator[str]:
    """Yield the differences that prevent reading rows of one schema with another."""
    is_mapped = (earlier_mode, later_mode) != ("none", "none")
    found = {_physical(field, later_mode): field for field in later}
    for field in earlier:
        name = f"{above}{field.name}"
        match = found.get(_physical(field, earlier_mode))
        if match is None:
            if later_mode != "none":
                yield f"column {name} is dropped"
            elif is_mapped:
                yield f"column mapping ends, and column {name} has another name in earlier files"
        elif is_mapped and match.name != field.name:
            yield f"column {name} is renamed to {match.name}"
        elif earlier_mode == later_mode == "id" and field.metadata.get(FIELD_ID) != match.metadata.get(FIELD_ID):
            yield f"column {name} gets another id"  # earlier files have the other one: its values would be null
        else:
            yield from _type_problems(field, earlier_mode, match, later_mode, name)


def _type_problems(
    field: StructField, earlier_mode: ColumnMappingMode, match: StructField, later_mode: ColumnMappingMode, name: str
) -> Iterator[str]:
    changes = match.metadata.get(TYPE_CHANGES) or ()
    recorded = [(c.get("fieldPath") or "", type_name(str(c.get("fromType")))) for c in changes]

    def compare(earlier: DataType, later: DataType, path: Sequence[str] = ()) -> Iterator[str]:
        place = ".".join((name, *path))
        match earlier, later:
            case StructType(), StructType():
                yield from _problems(earlier, earlier_mode, later, later_mode, f"{place}.")
            case ArrayType(), ArrayType():
                yield from compare(earlier.elementType, later.elementType, (*path, "element"))
            case MapType(), MapType():
                yield from compare(earlier.keyType, later.keyType, (*path, "key"))
                yield from compare(earlier.valueType, later.valueType, (*path, "value"))
            case _ if not ((".".join(path), earlier.jsonValue()) in recorded or _is_readable_as(earlier, later)):
                yield f"column {place} changes from {earlier.simpleString()} to {later.simpleString()}"

    yield from compare(field.dataType, match.dataType)


def _is_readable_as(earlier: DataType, later: DataType) -> bool:
    texts = (StringType, CharType, VarcharType)
    if isinstance(earlier, texts) and isinstance(later, texts):
        return True
    if earlier.typeName() == "void" or earlier == later:
        return True
    return any(
        type(earlier) in kinds and type(later) in kinds and kinds.index(type(earlier)) <= kinds.index(type(later))
        for kinds in (_INTEGERS, _FLOATS)
    )


def _physical(field: StructField, mode: ColumnMappingMode) -> str:
    """Return the name of a column in data files; in lower case without column mapping, as Spark compares names."""
    return field.name.lower() if mode == "none" else str(field.metadata.get(PHYSICAL_NAME, field.name)).lower()


def _mode(metadata: Metadata) -> ColumnMappingMode:
    return column_mapping_mode(metadata.configuration)


def _schema(metadata: Metadata, version: int, path: str) -> StructType:
    try:
        return schema_of(metadata, table_path=path, version=version)
    except CorruptLogError as error:
        raise RowChangesError(path=path, version=version, reason=error.reason) from error
