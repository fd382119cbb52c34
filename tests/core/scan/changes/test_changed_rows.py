"""Which rows of which files a commit changes, from its file actions. Without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from deltasnap_core import CorruptLogError
from deltasnap_core.protocol.actions import DeletionVectorDescriptor
from deltasnap_core.scan.changes.changed_rows import DELETE, INSERT, FileAction, changed_rows, file_actions
from deltasnap_core.scan.files.roaring import Rows
from tests.builders import LOG_PATH, TABLE_PATH, VECTOR, Action, add, remove
from tests.oracle import OracleState

FILE = {"partitionValues": {}, "size": 1, "dataChange": True, "deletionVector": None}
ROWS_OF_A_FILE = range(4)
KINDS = ("add", "remove")


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """A spelling of the file `p a`: any character may be escaped, the path may be absolute."""
    name = "".join(draw(st.sampled_from([letter, f"%{ord(letter):02x}", f"%{ord(letter):02X}"])) for letter in "p a")
    root = draw(st.sampled_from(["", f"{TABLE_PATH}/", f"{TABLE_PATH.removeprefix('file://')}/"]))
    return root + name


@given(spellings(), st.sampled_from(["", f"{TABLE_PATH}/"]))
def test_a_new_vector_deletes_only_its_rows_in_any_spelling_of_the_path(added: str, root: str) -> None:
    removed = root + "p%20a"
    if added.startswith(("/", "file:")) != bool(root):  # a relative and an absolute path are two files
        added = root + added.rpartition("/")[2]
    rows: list[dict[str, Any]] = [
        {"commit_version": 1, "add": None, "remove": {**FILE, "path": removed}},
        {"commit_version": 1, "add": {**FILE, "path": added, "deletionVector": VECTOR}, "remove": None},
    ]
    found = changed_rows(file_actions(rows, log_path=LOG_PATH), lambda _: np.array([7]))
    assert [(each.change, list(each.only)) for each in found if each.only is not None] == [(DELETE, [7])]
    assert len(found) == 1


@pytest.mark.parametrize(("removed", "added"), [(True, False), (False, True), (False, False)])
def test_new_vector_of_a_commit_that_changes_no_data_deletes_nothing(removed: bool, added: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"commit_version": 1, "add": None, "remove": {**FILE, "path": "a", "dataChange": removed}},
        {
            "commit_version": 1,
            "add": {**FILE, "path": "a", "deletionVector": VECTOR, "dataChange": added},
            "remove": None,
        },
    ]
    assert changed_rows(file_actions(rows, log_path=LOG_PATH), lambda _: np.array([7])) == []


def vector(*deleted: int) -> dict[str, Any]:
    """Return a vector that states the rows it deletes in its id."""
    text = "".join(map(str, deleted))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": 1, "cardinality": len(deleted)}


def deleted_by(descriptor: DeletionVectorDescriptor) -> Rows:
    return np.array([int(digit) for digit in descriptor.path_or_inline_dv], np.int64)


def actions_of(commits: Mapping[int, Iterable[Action]]) -> list[FileAction]:
    rows = [
        {
            "commit_version": version,
            **{kind: {**FILE, "partitionValues": None, **action[kind]} if kind in action else None for kind in KINDS},
        }
        for version, commit in commits.items()
        for action in commit
    ]
    return file_actions(rows, log_path=LOG_PATH)


@dataclass
class Before:
    """The files that are live before the commits; notes which paths are looked up."""

    files: Sequence[Action] = ()
    lookups: list[Sequence[str]] | None = None

    def __call__(self, path_keys: Sequence[str]) -> list[FileAction]:
        self.lookups = [*(self.lookups or ()), path_keys]
        return [each for each in actions_of({0: self.files}) if each.path_key in path_keys]


def rows_of(path: str, deleted: Iterable[int]) -> Counter[tuple[str, int]]:
    return Counter((path, row) for row in set(ROWS_OF_A_FILE) - {*deleted})


def net_of(found: Iterable[FileAction]) -> Counter[tuple[str, int]]:
    """Return how often each row of each file was inserted, minus how often it was deleted."""
    net: Counter[tuple[str, int]] = Counter()
    for each in found:
        deleted = () if each.vector is None else deleted_by(each.vector).tolist()
        rows = rows_of(each.path, deleted) if each.only is None else Counter((each.path, int(r)) for r in each.only)
        (net.update if each.change == INSERT else net.subtract)(rows)
    return without_zeros(net)


def without_zeros(counts: Counter[tuple[str, int]]) -> Counter[tuple[str, int]]:
    return Counter({row: count for row, count in counts.items() if count})


def live_rows(state: OracleState) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    for file in actions_of({0: [{"add": values} for values in state.files.values()]}):
        found += rows_of(file.path, () if file.vector is None else deleted_by(file.vector).tolist())
    return found


def difference(before: OracleState, after: OracleState) -> Counter[tuple[str, int]]:
    rows = live_rows(after)
    rows.subtract(live_rows(before))
    return without_zeros(rows)


vectors = st.sampled_from((None, vector(0), vector(1, 2), vector(0, 1, 2)))
an_action = st.builds(
    lambda make, path, deleted: make(path, deletionVector=deleted),
    st.sampled_from((add, remove)),
    st.sampled_from("ab"),
    vectors,
)
some_commits = st.lists(st.lists(an_action, max_size=4), min_size=1, max_size=5)


@given(some_commits, st.data())
def test_changes_of_any_log_are_the_difference_of_its_versions(log: list[list[Action]], data: st.DataObject) -> None:
    """Also if a commit adds a live file, removes a file that is not live, or does both with one file."""
    states = [OracleState()]
    for commit in log:
        states.append(states[-1].after(commit))
    first = data.draw(st.integers(0, len(log) - 1))
    last = data.draw(st.integers(first, len(log) - 1))
    actions = actions_of({version: log[version] for version in range(first, last + 1)})
    before = Before([{"add": values} for values in states[first].files.values()])
    found = changed_rows(actions, deleted_by, before)
    assert net_of(found) == difference(states[first], states[last + 1])
    for version in range(first, last + 1):
        of_version = [each for each in found if each.version == version]
        assert net_of(of_version) == difference(states[version], states[version + 1])


def test_one_lookup_has_the_paths_whose_first_action_changes_data() -> None:
    before = Before()
    commits = {
        1: [add("new"), remove("old"), add("moved", dataChange=False), remove("moving", dataChange=False)],
        2: [remove("moved"), add("moving"), remove("new"), add("recorded")],
        3: [remove("recorded"), add("last")],
    }
    changed_rows(actions_of(commits), deleted_by, before, recorded={2})
    assert before.lookups == [["last", "new", "old"]]
    nothing = Before()
    changed_rows(actions_of({1: [add("a", dataChange=False)], 2: [remove("b", dataChange=False)]}), deleted_by, nothing)
    assert nothing.lookups is None


def test_without_the_version_before_removed_files_were_live_and_added_files_were_not() -> None:
    commits = {1: [add("a"), remove("b"), add("b")], 2: [add("a"), remove("c")], 3: [remove("a"), remove("a")]}
    found = changed_rows(actions_of(commits), deleted_by)
    assert [(each.version, each.change, each.path) for each in found] == [
        (1, INSERT, "a"), (2, DELETE, "c"), (3, DELETE, "a"),
    ]  # fmt: skip


def test_recorded_versions_have_no_rows_but_their_adds_count() -> None:
    commits = {1: [add("a", partitionValues={"p": "x"})], 2: [remove("a")]}
    (found,) = changed_rows(actions_of(commits), deleted_by, Before(), recorded={1})
    assert (found.change, found.version, found.partition_values) == (DELETE, 2, {"p": "x"})


def test_partition_values_of_a_removed_file_are_those_with_which_it_was_live() -> None:
    commits = {1: [remove("a")], 2: [add("a", partitionValues={"p": "new"})], 3: [remove("a")]}
    before = Before([add("a", partitionValues={"p": "old"})])
    found = changed_rows(actions_of(commits), deleted_by, before)
    assert [each.partition_values for each in found] == [{"p": "old"}, {"p": "new"}, {"p": "new"}]


def test_remove_without_any_partition_value_has_those_of_the_file() -> None:
    commits = {2: [remove("a", partitionValues={}, extendedFileMetadata=False)]}
    (found,) = changed_rows(actions_of(commits), deleted_by, Before([add("a", partitionValues={"p": "x"})]))
    assert found.partition_values == {"p": "x"}
    (found,) = changed_rows(actions_of(commits), deleted_by, Before([add("a", partitionValues={})]))
    assert found.partition_values == {}
    (found,) = changed_rows(actions_of(commits), deleted_by)
    assert found.partition_values is None
    added_again = {**commits, 3: [add("a", partitionValues={"p": "x"})]}
    assert changed_rows(actions_of(added_again), deleted_by)[0].partition_values == {"p": "x"}


def test_invalid_deletion_vector_of_a_change_names_its_version() -> None:
    values = {**FILE, "path": "a", "deletionVector": {**VECTOR, "cardinality": None}}
    with pytest.raises(CorruptLogError, match=r"version 7: .*cardinality"):
        file_actions([{"commit_version": 7, "add": values, "remove": None}], log_path=LOG_PATH)
