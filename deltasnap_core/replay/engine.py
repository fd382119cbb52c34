"""Chooses the engine for each question, Spark or the driver, and returns the reason. Defines the limits of the driver.

**Spark reconstructs**: it materializes versions from a checkpoint or from version 0. It does all work above the limits.
**The driver applies** a few commits, which it reads anyway, to a known version. **The driver answers
interactive requests** up to the limits: counts, pages, pandas and Arrow inputs, the planning of a scan. With
`use="spark"`, Spark replays all file actions. The process still parses commits and non-file actions.

The driver raises UnusualError for an action in a form that Spark reads only after a conversion. Then Spark answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from threading import Lock
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from deltasnap_core.replay.sessions import SparkProvider

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

EngineUse = Literal["auto", "spark", "person"]
"""auto: by the rules of this module. spark: always Spark, for file actions. person: as auto, but the driver also
reconstructs small versions: a person waits for an answer, and nothing is kept.
"""


class Question(Enum):
    """The kinds of questions that need an engine."""

    RECONSTRUCT = "a version stored in full"
    COUNT = "the computed state of a version"
    ROWS = "the file actions of a version"
    APPLY = "commits applied to a stored version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The largest input for the driver: `most`, in `unit`. driver, spark: the cost on each engine."""

    most: int
    unit: str
    driver: str
    spark: str


LIMITS: Mapping[Question, Limit] = {
    Question.COUNT: Limit(
        most=1_500_000,
        unit="file actions",
        driver="0.4 to 1.5 s and less than 1 GiB for a million",
        spark="0.8 s, plus 0.7 s for each million; plus 5 s if a session must start",
    ),
    Question.ROWS: Limit(
        most=50_000,
        unit="rows",
        driver="0.1 to 0.5 s for 50,000, about 100 MiB",
        spark="0.3 to 0.6 s for any version",
    ),
    Question.APPLY: Limit(
        most=5_000,
        unit="file actions",
        driver="0.2 s for 5,000, plus 0.5 s if the version has a million files",
        spark="0.6 to 1.6 s for any commit; plus 5 s if a session must start",
    ),
}
"""The limits. RECONSTRUCT has none: Spark always answers it, except for a person, up to the limit of ROWS."""


class UnusualError(Exception):
    """Raised for an action in a form that Spark may read differently from Arrow and Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """The answer to a question.

    computed_by: for example `Spark 4.3.0, local[2]` or `driver: 12 actions applied to version 40`.
    """

    value: T
    computed_by: str


def actions_text(count: int | None, done: str) -> str:
    """Return the work of the driver as text, for `ReplayEngine.answer`: `1 action read`. None: too many for it."""
    if count is None:
        return done
    return f"{count:,} {'action' if count == 1 else 'actions'} {done}"


def why_spark(question: Question, size: int | None, use: EngineUse = "auto") -> str | None:
    """Return why Spark answers a question, in one line; None: the driver answers.

    size: of the input, in the limit's unit; None: too large for the driver.
    """
    is_for_person = use == "person" and question is Question.RECONSTRUCT
    limit = LIMITS.get(Question.ROWS if is_for_person else question)
    if use == "spark":
        why = "the engine is set to Spark"
    elif limit is None:
        why = "always on Spark"
    elif size is None:
        why = f"more {limit.unit} than the driver holds in memory"
    elif size > limit.most:
        why = f"{size:,} {limit.unit}, more than {limit.most:,}"
    else:
        return None
    return f"{question.value}: {why}"


class ReplayEngine:
    """Answers questions about tables, each on the chosen engine. Threads may share it."""

    def __init__(self, sessions: SparkProvider, use: EngineUse = "auto") -> None:
        self.sessions = sessions
        self.use = use
        self._lock = Lock()
        self._description: str | None = None

    def answer(
        self,
        sizes: Mapping[Question, int | None],
        *,
        work: str,
        driver: Callable[[], T],
        spark: Callable[[SparkSession], T],
    ) -> Answer[T]:
        """Return the answer of the chosen engine, or of Spark if the driver raises UnusualError.

        sizes: by question, as for `why_spark`. The driver answers only if all sizes are within its limits.
        work:  the work of the driver, for example `12 actions applied to version 40`.
        Errors: those of the answer; SparkRequiredError if Spark must answer and there is no session.
        """
        reason = self.reason_for_spark(sizes)
        if reason is None:
            try:
                return Answer(value=driver(), computed_by=f"driver: {work}")
            except UnusualError as error:
                reason = f"{next(iter(sizes)).value}: only Spark reads {error}"
        return self.on_spark(reason, spark)

    def reason_for_spark(self, sizes: Mapping[Question, int | None]) -> str | None:
        """Return why Spark answers questions that are answered together; None: the driver answers."""
        reasons = (why_spark(question, size, self.use) for question, size in sizes.items())
        return next((reason for reason in reasons if reason is not None), None)

    def on_spark(self, reason: str, spark: Callable[[SparkSession], T]) -> Answer[T]:
        """Return the answer of Spark."""
        session = self.sessions.session(reason)
        return Answer(value=spark(session), computed_by=self._described(session))

    def _described(self, session: SparkSession) -> str:
        with self._lock:
            if self._description is None:
                master = session.conf.get("spark.master", None)
                self._description = f"Spark {session.version}" + ("" if master is None else f", {master}")
            return self._description
