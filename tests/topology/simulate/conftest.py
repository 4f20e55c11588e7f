"""Tests of the simulation's stages share one Spark session."""

from tests.support.spark import spark

__all__ = ["spark"]
