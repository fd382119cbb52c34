"""The session of these tests uses Sail, with the settings of the app."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Replaces the fixture of all tests."""
    from pyspark.sql import SparkSession

    from deltasnap_assets.settings.config import SparkSettings
    from deltasnap_assets.spark.session_config import session_config

    session = SparkSession.builder.config(map={**session_config(SparkSettings(remote="sail"))}).getOrCreate()
    yield session
    session.stop()
