"""What is known of commits that were read."""

from __future__ import annotations

from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.condition.problem_kinds import ProblemKind


def test_only_wanted_commits_of_another_reader_are_added() -> None:
    def read(*versions: int) -> CommitFindings:
        return CommitFindings(
            versions={*versions},
            infos=dict.fromkeys(versions),
            actions={version: [version] for version in versions},
            marked={ProblemKind.EMPTY_COMMIT: {*versions}},
        )

    found = read(1)
    found.merge(read(2, 3), range(1, 3))
    assert found == read(1, 2)
