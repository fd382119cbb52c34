from __future__ import annotations

import json
from dataclasses import replace

from deltasnap_assets.tables.checks.run_facts import version_facts
from tests.assets.tables.test_metadata import state


def test_schema_changes_are_known_for_versions_with_a_known_predecessor() -> None:
    metadata = state().metadata
    assert metadata is not None
    wider = json.loads(metadata.schema_string or "")
    wider["fields"].append({"name": "new", "type": "string", "nullable": True, "metadata": {}})
    after = state(metadata=replace(metadata, schema_string=json.dumps(wider)))
    facts = version_facts({3: state(), 4: state(), 5: after, 6: state(metadata=None)}, (3, 4, 5, 6))
    assert facts.schema_changes == {4: (), 5: ("column new added (string)",)}
