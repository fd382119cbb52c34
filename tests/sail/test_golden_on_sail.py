"""The golden proof on Sail: the tests of Spark, with another session."""

from __future__ import annotations

import pytest

pytest.importorskip("pysail", reason="pysail is not installed: it needs an environment of constraints-sail.txt")
from tests.core.test_golden import *  # noqa: F403
