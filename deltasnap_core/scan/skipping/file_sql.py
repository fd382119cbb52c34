"""SQL over one file as a value: its text, and what it reads. Conditions on files consist of such values.

None is SQL that is unknown: a condition that is unknown keeps the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.scan.table_columns import TableColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSql:
    """SQL over `s`, the statistics of a file, and over the column `partitionValues` of AddFile.

    statistics: the statistics that it reads.
    partitions: the partition columns whose values it reads.
    is_whole:   whether it covers a condition completely; False: unknown parts of an AND are left out.
    """

    text: str
    statistics: frozenset[StatisticPath] = frozenset()
    partitions: frozenset[TableColumn] = frozenset()
    is_whole: bool = True


NEVER = FileSql(text="false")


def file_sql(template: str, *parts: FileSql | str | None) -> FileSql | None:
    """Return SQL with parts in the places `{}` of a template; None if a part is unknown."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    read = [part for part in known if isinstance(part, FileSql)]
    return _combined(template.format(*(part if isinstance(part, str) else part.text for part in known)), read)


def all_of(parts: Iterable[FileSql | None]) -> FileSql | None:
    """Return AND of conditions, without those that are unknown; None: all are."""
    given = list(parts)
    known = [part for part in given if part is not None]
    is_whole = len(known) == len(given) and all(part.is_whole for part in known)
    found = NEVER if any(map(_is_never, known)) else _joined(" and ", known)
    return None if found is None else replace(found, is_whole=is_whole)


def any_of(parts: Iterable[FileSql | None]) -> FileSql | None:
    """Return OR of conditions; None: one of them is unknown."""
    given = list(parts)
    known = [part for part in given if part is not None]
    if len(known) < len(given):
        return None
    found = _joined(" or ", [part for part in known if not _is_never(part)]) or NEVER
    return replace(found, is_whole=all(part.is_whole for part in known))


def _is_never(condition: FileSql) -> bool:
    return condition.text == NEVER.text


def _joined(word: str, parts: Sequence[FileSql]) -> FileSql | None:
    texts = list(dict.fromkeys(part.text for part in parts))
    text = f"({word.join(texts)})" if len(texts) > 1 else "".join(texts)
    return _combined(text, parts) if texts else None


def _combined(text: str, parts: Sequence[FileSql]) -> FileSql:
    return FileSql(
        text=text,
        statistics=frozenset[StatisticPath]().union(*(part.statistics for part in parts)),
        partitions=frozenset[TableColumn]().union(*(part.partitions for part in parts)),
        is_whole=all(part.is_whole for part in parts),
    )
