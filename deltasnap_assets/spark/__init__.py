"""Spark sessions: their configuration, Java, the class-data archive, the Connect server."""

from __future__ import annotations
