"""Builders for the tests of concurrency."""

from __future__ import annotations

from tests.forks import Forks

FORKS = Forks("deltasnap_core.log.checkpoints.checkpoint_contents", "deltasnap_core.replay.driver.checkpoint_shares")
