"""What is known of commits that were read."""

from __future__ import annotations

from deltasnap_core.log.condition.commit_findings import CommitFindings


def test_only_wanted_commits_of_another_reader_are_added() -> None:
    def read(*versions: int) -> CommitFindings:
        return CommitFindings(
            versions={*versions},
            infos=dict.fromkeys(versions),
            actions={version: [version] for version in versions},
            negative={*versions},
            contradictory={*versions},
            repeating={*versions},
            removing_again={*versions},
            blank={*versions},
        )

    found = read(1)
    found.merge(read(2, 3), range(1, 3))
    assert found == read(1, 2)
