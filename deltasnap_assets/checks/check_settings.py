"""The keys of `checks` in `deltasnap.yaml`: the limits of all checks, and the options of each."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, WithJsonSchema, field_validator

MAX_HOURS = 1_000_000  # a century
RangeLimit: TypeAlias = Annotated[
    int | float | datetime | date | str | None, WithJsonSchema({"type": ["number", "string", "null"]})
]
# The text below a field is its description in the documentation, the schema for `dg`, and error messages.
_CONFIG = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def boolean_as_text(cls: type[BaseModel], value: object, info: ValidationInfo) -> object:
    """Return a boolean in place of a number as text, so that it is an error. Pydantic takes `true` as 1.

    A validator of all fields of a model. YAML reads `yes` and `on` as `true`.
    """
    is_number = _is_of_numbers(cls.model_fields[str(info.field_name)].annotation)
    return _booleans_as_text(value) if is_number else value


def _booleans_as_text(value: object) -> object:
    if isinstance(value, dict):
        return {key: _booleans_as_text(each) for key, each in value.items()}
    return str(value).lower() if isinstance(value, bool) else value


def _is_of_numbers(kind: object) -> bool:
    kinds = get_args(kind)
    return kind in (int, float) or (bool not in kinds and any(map(_is_of_numbers, kinds)))


class CheckOptions(BaseModel):
    """Whether a check is evaluated, and the effect of a failure."""

    model_config = _CONFIG

    enabled: bool = True
    """`false` switches the check off."""
    severity: Literal["error", "warn", "warning"] | None = None
    """The severity of a failure, in Dagster, in the fleet and in alerts: `error` or `warn`; `null`: as the check
    decides.
    """
    blocking: bool | None = None
    """Whether a failure with the severity `error` keeps assets downstream from running in the same run; `null`: only
    `checksum_agrees` does.
    """


class CheckSettings(BaseModel):
    """The limits of the asset checks, and the options of each check by its name."""

    model_config = _CONFIG
    _numbers = field_validator("*", mode="before")(boolean_as_text)

    small_file_bytes: int = Field(default=16 * 1024 * 1024, ge=1)
    """A file smaller than this counts as small. A size between two boundaries of Delta's histogram counts as the lower
    one. The boundaries are 8 KiB, doubling up to 4 MiB, then every 4 MiB up to 40 MiB, then wider.
    """
    max_small_file_ratio: float = Field(default=0.5, ge=0, le=1)
    """The maximum ratio of small files. It does not apply to fewer than 16 files."""
    min_statistics_ratio: float = Field(default=0.9, ge=0, le=1)
    """The minimum ratio of files with statistics."""
    max_commits_since_checkpoint: int = Field(default=200, ge=1)
    """The maximum number of commits since the last checkpoint."""
    max_tombstone_ratio: float = Field(default=0.5, ge=0, le=1)
    """The maximum ratio of tombstones among the files and tombstones of a version. It does not apply to fewer than 16
    tombstones.
    """
    max_partition_skew: float = Field(default=10, ge=1)
    """The maximum size of a partition, as a multiple of the median partition. It does not apply to fewer than 5
    partitions.
    """
    max_expired_ratio: float = Field(default=0.5, ge=0)
    """The maximum size of the files whose retention ended since the last commit, as a ratio of the table's size. It
    does not apply to fewer than 16 files.
    """
    fresh_within_hours: float | None = Field(default=None, gt=0, le=MAX_HOURS)
    """The maximum age of the last commit. `null`: three times the longest recent pause, at least a day."""
    max_growth_factor: float = Field(default=10, ge=1)
    """The maximum change of the size by one version, as a multiple of the largest change in recent versions. It does
    not apply to a version after fewer than 5 changes.
    """

    min_rows_ratio: float = Field(default=0.5, ge=0)
    """The least rows that commits add in 24 hours, as a ratio of the usual number."""
    max_rows_ratio: float = Field(default=2, ge=1)
    """The most rows that commits add in 24 hours, as a ratio of the usual number."""
    max_null_share: dict[str, Annotated[float, Field(ge=0, le=1)]] = {"*": 0.5}
    """The maximum share of nulls, by column; `*`: of every other column. Without `*`, the others are not checked."""
    max_hours_in_future: float = Field(default=24, ge=0, le=MAX_HOURS)
    """How far the greatest value of a column of dates or times may be in the future. A date begins at midnight UTC."""
    dated_columns: tuple[str, ...] | None = None
    """The columns that `max_not_in_future` checks. `null`: every column of dates or times."""
    column_ranges: dict[str, tuple[RangeLimit, RangeLimit]] = {}
    """The least and the greatest value that is expected, by column; `null`: any. For example `{amount: [0, null]}`."""

    contiguous_log: CheckOptions = CheckOptions()
    readable_checkpoint: CheckOptions = CheckOptions()
    readable_protocol: CheckOptions = CheckOptions()
    checksum_agrees: CheckOptions = CheckOptions()
    small_files: CheckOptions = CheckOptions()
    statistics_coverage: CheckOptions = CheckOptions()
    checkpoint_lag: CheckOptions = CheckOptions()
    tombstone_ratio: CheckOptions = CheckOptions()
    even_partitions: CheckOptions = CheckOptions()
    expired_tombstones: CheckOptions = CheckOptions()
    fresh_table: CheckOptions = CheckOptions()
    cleanup_orphans: CheckOptions = CheckOptions()
    schema_unchanged: CheckOptions = CheckOptions()
    steady_growth: CheckOptions = CheckOptions()
    rows_expected: CheckOptions = CheckOptions(enabled=False)
    null_share: CheckOptions = CheckOptions(enabled=False)
    max_not_in_future: CheckOptions = CheckOptions(enabled=False)
    columns_within: CheckOptions = CheckOptions(enabled=False)
