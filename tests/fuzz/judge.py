"""Checks the results for a table: they must equal the oracle's, be an expected error, or at least agree."""

from __future__ import annotations

import re
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from deltasnap_core.errors import SparkRequiredError
from tests.fuzz.made_tables import EXPIRED, MadeTable, make_table
from tests.fuzz.meanings import Meaning, Mutation
from tests.fuzz.mutations import mutated
from tests.fuzz.questions import Answer, log_answers, of_kind, spark_answers
from tests.oracle import comparable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_VERSIONS = 3
OF_A_VERSION = {"timestamp", "protocol", "metadata", "transactions", "domains"}
# An answer that is a DataFrame fails when it is collected.
FRAMES = {"state", "all files", "tombstones", "scan files"}


@dataclass(frozen=True)
class Finding:
    """A wrong answer. kind: equal for findings that probably have the same cause."""

    seed: int
    kind: str
    mutations: tuple[str, ...]
    text: str

    @property
    def is_foreign(self) -> bool:
        """Whether it is an exception other than DeltaSnapError, or a timeout; else it is a wrong answer."""
        return re.match(r"\w+ in ", self.kind) is not None

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.kind}\n    {'; '.join(self.mutations)}\n    {self.text}"


@dataclass(frozen=True)
class Tried:
    """The result of one table: the kinds of its mutations, and the wrong answers."""

    kinds: tuple[str, ...]
    findings: tuple[Finding, ...]


def try_table(seed: int, spark: SparkSession | None = None, *, has_small_limits: bool = False) -> Tried:
    """Make the table of a seed, mutate it, query it, and return the wrong answers.

    has_small_limits: a query may then need Spark.
    """
    rng = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        table = make_table(Path(folder, "a table"), rng)
        mutations = mutated(table, rng)
        versions = sorted(rng.sample(table.versions, min(MAX_VERSIONS, len(table.versions))))
        vanishing = {file: after for mutation in mutations for file, after in mutation.vanishing.items()}
        check_pages = rng.random() < 0.5
        if spark is None:
            answers = log_answers(table.folder, versions, vanishing)
        else:
            store, requested = Path(folder, "store"), versions[-2:]
            answers = spark_answers(spark, table.folder, store, requested, vanishing, check_pages=check_pages)
            answers += log_answers(table.folder, versions)
    if has_small_limits:
        answers = [answer for answer in answers if not isinstance(answer.refusal, SparkRequiredError)]
    # A file may vanish after its pages were checked. Then Spark's own error ends the query over the DataFrame.
    wrong = [
        *_failures(answers, check_pages=check_pages and not vanishing),
        *_against_oracle(table, mutations, answers),
        *_disagreements(answers, table.checkpoints if _meaning(mutations) is Meaning.ANY else (), vanishing),
    ]
    texts = tuple(mutation.text for mutation in mutations)
    findings = tuple(Finding(seed, kind, texts, text[:1500]) for kind, text in wrong)
    return Tried(tuple(mutation.kind for mutation in mutations) or ("nothing",), findings)


def _failures(answers: list[Answer], *, check_pages: bool) -> Iterator[tuple[str, str]]:
    for answer in answers:
        error = answer.failure
        if error is None or (answer.question in FRAMES and _is_of_spark(error) and not check_pages):
            continue
        yield f"{type(error).__name__} in {_place(error)}", f"{answer.question} of {answer.version}: {str(error)[:600]}"


def _place(error: BaseException) -> str:
    """Return the function of this project that raised an error, or was active when it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f"{Path(frame.filename).name}:{frame.name}" for frame in frames if "deltasnap_" in frame.filename]
    if ours:
        return ours[-1]
    return "?" if error.__context__ is None else _place(error.__context__)


def _is_of_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark", "py4j"))


def _meaning(mutations: list[Mutation]) -> Meaning:
    worst = max((mutation.meaning for mutation in mutations), key=lambda meaning: meaning.value, default=Meaning.SAME)
    # One of them may replace what the other has read.
    return Meaning.SAME_OR_ERROR if worst is Meaning.SAME and len(mutations) > 1 else worst


def _against_oracle(table: MadeTable, mutations: list[Mutation], answers: list[Answer]) -> Iterator[tuple[str, str]]:
    meaning = _meaning(mutations)
    if meaning is Meaning.ANY:
        return
    opened = {answer.version: answer.value for answer in answers if answer.question == "version"}
    for answer in answers:
        if answer.refusal is not None and meaning is Meaning.SAME:
            kind = f"{type(answer.refusal).__name__} though nothing is missing"
            yield kind, f"{answer.question} of {answer.version}: {answer.refusal}"
        if answer.refusal is not None or answer.failure is not None:
            continue
        version = opened.get(None) if answer.version is None else answer.version
        right = None if version is None else _right(table, answer.question, version, meaning)
        if right is not None and answer.value not in right:
            yield f"{answer.question}: not what the log says", f"of {version}: {answer.value}, but {right[0]}"


def _right(table: MadeTable, question: str, version: int, meaning: Meaning) -> list[Any] | None:
    """Return the correct results; None: unknown."""
    if version not in table.versions:
        return None
    state = table.states[version]
    transactions = {name: txn["version"] for name, txn in state.transactions.items()}
    domains = {name: domain["configuration"] for name, domain in state.domains.items()}
    rows = comparable(state.actions(EXPIRED))
    counts = state.counts(EXPIRED)
    timestamps = [table.timestamp(version)]
    if meaning is not Meaning.SAME and table.in_commit_timestamps:
        timestamps.append(timestamps[0] - 7)  # the commit with the timestamp is gone, but a checkpoint exists
    # If the removed file is the last of the log, the latest version changes.
    is_same = meaning is Meaning.SAME
    history = [
        (v, table.timestamp(v), table.commits[v][0]["commitInfo"]["operation"]) for v in reversed(table.versions)
    ]
    answers: dict[str, list[Any] | None] = {
        "version": [version] if not is_same else [version, table.versions[-1]],
        "timestamp": timestamps,
        "protocol": [comparable([state.protocol or {}])],
        "replayed protocol": [comparable([state.protocol or {}])],
        "metadata": [comparable([state.metadata or {}])],
        "replayed metadata": [comparable([state.metadata or {}])],
        "transactions": [transactions],
        "replayed transactions": [transactions],
        "domains": [domains],
        "replayed domains": [domains],
        "history": [history] if is_same else None,
        "latest version": [table.versions[-1]] if is_same else None,
        "commit timestamps": [{v: table.timestamp(v) for v in table.versions}] if is_same else None,
        "reconstructable versions": [tuple(sorted({*table.checkpoints, *table.versions}))] if is_same else None,
        "version as of a time": [table.versions[-1]] if is_same else None,
        "computed state": [counts],
        "computed state in Spark": [counts],
        "state": [rows],
        "stored state": [rows],
        "all files": [sorted(add["path"] for add in of_kind(rows, "add"))],
        "stored files in Arrow": [sorted(add["path"] for add in of_kind(rows, "add"))],
        "files by the driver": [sorted(add["path"] for add in of_kind(rows, "add")), None],
        "tombstones": [sorted(remove["path"] for remove in of_kind(rows, "remove"))],
        "validate checksum": [[]],
    }
    return answers.get(question)


def _disagreements(
    answers: list[Answer], checkpoints: Collection[int], vanishing: Collection[Path]
) -> Iterator[tuple[str, str]]:
    """Yield the disagreements of two readers about one version.

    checkpoints: those that may contradict the commits before them. vanishing: files that existed for the first query.
    """
    found: defaultdict[int | None, dict[str, Any]] = defaultdict(dict)
    for answer in answers:
        if answer.refusal is None and answer.failure is None:
            found[answer.version][answer.question] = answer.value
    latest = found.pop(None, {})
    for version, reported in found.items():
        stories = _stories(reported)
        if version is not None and any(_first_stored(found) < checkpoint <= version for checkpoint in checkpoints):
            # If the commits contradict a checkpoint, a snapshot follows the checkpoint, and the store follows the
            # commits after its base.
            stories = {name: story for name, story in stories.items() if not name.startswith("stored")}
        # A checksum that vanished in between is a separate source.
        has_same_checksum = (latest.get("checksum") is None) == (reported.get("checksum") is None)
        has_same_log = has_same_checksum and not (checkpoints and vanishing)
        if latest.get("version") == version and "by number" in stories and has_same_log:
            stories["latest"] = {name: latest[name] for name in stories["by number"].keys() & latest.keys()}
        for (one, ours), (other, theirs) in combinations(stories.items(), 2):
            for name in ours.keys() & theirs.keys():
                if ours[name] != theirs[name]:
                    yield f"{name}: {one} and {other} differ", f"of {version}: {ours[name]!r} and {theirs[name]!r}"


def _first_stored(found: Mapping[int | None, dict[str, Any]]) -> int:
    """Return the first version that the store had to write; none if it was not used."""
    stored = [version for version, reported in found.items() if version is not None and "stored state" in reported]
    return min(stored, default=2**63)


def _stories(reported: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the results of each reader for a version, with the same names."""
    stories = {"by number": {name: reported[name] for name in OF_A_VERSION & reported.keys()}}
    # A checksum is a separate source: a hint that is compared only on request.
    if reported.get("checksum", 0) is None:
        stories["replay"] = {
            name.removeprefix("replayed "): reported[name] for name in reported if name.startswith("replayed ")
        }
    for name in ("computed state", "computed state in Spark", "stored computed state"):
        if name in reported:
            stories[name] = dict(reported[name])
    # The store counts tombstones at a different time.
    stories.get("stored computed state", {}).pop("num_tombstones", None)
    for name in ("state", "stored state"):
        if name in reported:
            stories[name] = {"rows": reported[name], **_counted(reported[name])}
    for name in ("files by the driver", "scan files", "stored files in Arrow"):
        if reported.get(name) is not None:
            stories[name] = {"all files": reported[name]}
    stories["frames"] = {name: reported[name] for name in ("all files", "tombstones") if name in reported}
    return stories


def _counted(rows: list[str]) -> dict[str, Any]:
    """Return the facts that follow from the rows of a state."""
    adds, removes = of_kind(rows, "add"), of_kind(rows, "remove")
    return {
        "all files": sorted(add["path"] for add in adds),
        "tombstones": sorted(remove["path"] for remove in removes),
        "num_files": len(adds),
        "size_in_bytes": sum(add.get("size") or 0 for add in adds),
        "num_tombstones": len(removes),
        # A scan refuses a descriptor without its type. It has no id, so it counts as none.
        "num_deletion_vectors": sum("storageType" in (add.get("deletionVector") or {}) for add in adds),
        "set_transactions": {txn["appId"]: txn["version"] for txn in of_kind(rows, "txn")},
    }
