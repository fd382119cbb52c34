"""The columns of a table, found by any of their names, from the JSON of its schema. No Spark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.protocol.properties.table_config import ColumnMappingMode, column_mapping_mode
from deltasnap_core.protocol.schema_text import PHYSICAL_NAME, TYPE_CHANGES, type_name, unwrapped
from deltasnap_core.rules.texts.sql_text import quoted

COLLATIONS = "__COLLATIONS"

_NESTED = ("struct", "array", "map", "udt")
_NAME = re.compile(r"`(?:[^`]|``)+`|[^`.]+")
_NAME_PATH = re.compile(rf"(?:{_NAME.pattern})(?:\.(?:{_NAME.pattern}))*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column, or a field inside a struct.

    path:             the name of the column, followed by the names of the fields that lead to this one.
    physical_path:    the same path in data files, statistics and partition values.
    data_type:        the type name as in the schema, such as `long` or `decimal(10,2)`; for a struct, array or map only
                      that word; `collated` for a string with a collation; `unknown` for an invalid type name.
    is_partition:     whether its values are in `partitionValues`.
    in_nullable:      whether it is inside a nullable struct.
    was_float:        whether older files may have it as a `float`, whose decimal text is another number as a `double`.
    is_widened:       whether older files may have it in another type.

    Source: PROTOCOL.md, Column Mapping; Type Widening.
    """

    path: tuple[str, ...]
    physical_path: tuple[str, ...]
    data_type: str
    is_partition: bool = False
    in_nullable: bool = False
    was_float: bool = False
    is_widened: bool = False

    @property
    def name(self) -> str:
        """The path with dots, for messages. For a column outside of structs, this is its name in the schema."""
        return ".".join(self.path)

    @property
    def physical_name(self) -> str:
        """The physical path with dots."""
        return ".".join(self.physical_path)

    @property
    def is_leaf(self) -> bool:
        """Whether it is not a struct, array, map or variant."""
        return self.data_type not in ("struct", "array", "map", "variant")


def distinct_names(columns: Sequence[TableColumn]) -> list[str]:
    """Return a name for each column: the path with dots; for a field of this name that another column has, too, in SQL.

    Without regard to case. With `TableColumns.named`, each ambiguous name leads to its column.
    """
    counts = Counter(column.name.lower() for column in columns)
    return [_quoted(column) if _is_ambiguous(column, counts) else column.name for column in columns]


def _is_ambiguous(column: TableColumn, counts: Mapping[str, int]) -> bool:
    is_quoted = column.name.startswith("`")  # as if it were the name of another one
    return is_quoted or (len(column.path) > 1 and counts[column.name.lower()] > 1)


def _quoted(column: TableColumn) -> str:
    return ".".join(map(quoted, column.path))


_Described = tuple[TableColumn, Mapping[str, Any]]
"""A column and its JSON in the schema."""


@dataclass(frozen=True)
class TableColumns:
    """The columns of one version of a table."""

    metadata: Metadata

    @cached_property
    def top(self) -> tuple[TableColumn, ...]:
        """The columns in schema order."""
        return tuple(column for column, _ in self._children(self._fields, None))

    @cached_property
    def partition(self) -> tuple[TableColumn, ...]:
        """The partition columns that are in the schema, in partition order."""
        by_name = {column.name.lower(): column for column in self.top}
        return tuple(by_name[name] for name in self._partition_names if name in by_name)

    @cached_property
    def leaves(self) -> tuple[TableColumn, ...]:
        """Every column and field that is not a struct, in schema order."""
        return tuple(self._leaves(self._fields, None))

    @cached_property
    def with_shared_paths(self) -> frozenset[str]:
        """The names of columns that have, or contain, a path in data files that dots may separate in another way.

        A column `a.b` beside a struct `a` is one: with dots, the field `b` of the struct has the same path.
        """
        return frozenset(self._with_shared_paths(self._fields, None))

    def _with_shared_paths(self, fields: Sequence[Mapping[str, Any]], parent: _Described | None) -> Iterator[str]:
        children = list(self._children(fields, parent))
        names = {column.physical_path[-1] for column, _ in children}
        begun = {beginning for name in names for beginning in _beginnings(name)}
        for column, field in children:
            name = column.physical_path[-1]
            inner = self._with_shared_paths(_fields_of(field), (column, field))
            if name in begun or not names.isdisjoint(_beginnings(name)) or next(inner, None) is not None:
                yield column.path[-1]

    def resolve(self, names: Sequence[str]) -> TableColumn | None:
        """Return the column for a path of names; None: unknown. Case-insensitive, as Spark's default."""
        found: _Described | None = None
        for name in names:
            matches = self._named(found).get(name.lower(), [])
            exact = [match for match in matches if match[0].path[-1] == name]
            if len(exact or matches) != 1:
                return None
            found = (exact or matches)[0]
        return None if found is None else found[0]

    def selected(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return columns in SQL. Errors: as `named`."""
        return tuple(".".join(map(quoted, self.named(name).path)) for name in names)

    def named(self, name: str) -> TableColumn:
        """Return the column for a name, as Spark resolves it. An exact name of a column is not split at its dots.

        Errors: ValueError for an unknown column.
        """
        column = self.resolve([name])
        if column is None and _NAME_PATH.fullmatch(name):
            parts = _NAME.findall(name)
            column = self.resolve([part[1:-1].replace("``", "`") if part[0] == "`" else part for part in parts])
        if column is None:
            known = ", ".join(column.name for column in self.top)
            raise ValueError(f"The table has no column {name!r}; it has {known}")
        return column

    def may_name(self, names: Sequence[str]) -> bool:
        """Return whether a path of names leads to a column, or perhaps inside one, which only Spark can decide."""
        paths = (names[:length] for length in range(len(names), 0, -1))
        found = next((column for column in map(self.resolve, paths) if column is not None), None)
        is_whole = found is not None and len(found.path) == len(names)
        return is_whole or (found is not None and found.data_type in ("array", "map", "variant"))

    def _named(self, parent: _Described | None) -> Mapping[str, list[_Described]]:
        """Return the columns inside a column (None: those of the table) by their names in lower case."""
        key = () if parent is None else parent[0].path
        if key not in self._by_name:
            found: dict[str, list[_Described]] = {}
            for each in self._children(self._fields if parent is None else _fields_of(parent[1]), parent):
                found.setdefault(each[0].path[-1].lower(), []).append(each)
            self._by_name[key] = found
        return self._by_name[key]

    @cached_property
    def _by_name(self) -> dict[tuple[str, ...], dict[str, list[_Described]]]:
        return {}

    @cached_property
    def _fields(self) -> Sequence[Mapping[str, Any]]:
        return _fields_of({"type": decode_json(self.metadata.schema_string or '{"type":"struct","fields":[]}')})

    @cached_property
    def _partition_names(self) -> tuple[str, ...]:
        return tuple(name.lower() for name in self.metadata.partition_columns)

    @cached_property
    def mapping_mode(self) -> ColumnMappingMode:
        """How the columns of data files are identified."""
        return column_mapping_mode(self.metadata.configuration)

    def _children(self, fields: Sequence[Mapping[str, Any]], parent: _Described | None) -> Iterator[_Described]:
        for field in fields:
            properties = field.get("metadata") or {}
            name = str(field["name"])
            physical = str(properties.get(PHYSICAL_NAME, name)) if self.mapping_mode != "none" else name
            above = None if parent is None else parent[0]
            yield (
                TableColumn(
                    path=(*(above.path if above else ()), name),
                    physical_path=(*(above.physical_path if above else ()), physical),
                    data_type=_type_name(field["type"], properties),
                    is_partition=above is None and name.lower() in self._partition_names,
                    in_nullable=parent is not None and (parent[0].in_nullable or parent[1].get("nullable", True)),
                    was_float=_was_float(properties.get(TYPE_CHANGES) or []),
                    is_widened=bool(properties.get(TYPE_CHANGES)),
                ),
                field,
            )

    def _leaves(self, fields: Sequence[Mapping[str, Any]], parent: _Described | None) -> Iterator[TableColumn]:
        for column, field in self._children(fields, parent):
            if column.data_type == "struct":
                yield from self._leaves(_fields_of(field), (column, field))
            else:
                yield column


def _beginnings(name: str) -> list[str]:
    """Return what is before each dot of a name."""
    return [name[:place] for place, character in enumerate(name) if character == "."]


def _fields_of(field: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    data_type = field["type"]
    if isinstance(data_type, Mapping) and data_type.get("type") == "struct":
        fields: Sequence[Mapping[str, Any]] = data_type["fields"]
        return fields
    return ()


def _was_float(changes: object) -> bool:
    if not isinstance(changes, list) or not all(isinstance(change, Mapping) for change in changes):
        return True  # unknown: then no statistics are compared
    return any(change.get("fromType") == "float" for change in changes)


def _type_name(data_type: object, properties: Mapping[str, Any]) -> str:
    data_type = unwrapped(data_type)
    if isinstance(data_type, Mapping):
        word = str(data_type.get("type"))
        return word if word in _NESTED else "unknown"
    name = type_name(str(data_type))
    if name is None:
        return "unknown"
    if name.startswith(("char(", "varchar(")):
        return "string"
    if name == "string" and properties.get(COLLATIONS):
        return "collated"
    return "collated" if name.startswith("string collate") else name
