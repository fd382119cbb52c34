"""Spark sessions: their configuration, Java, and whether a Connect server responds."""

from __future__ import annotations
