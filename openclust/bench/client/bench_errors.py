"""Errors of a bench that are not mistakes in its code."""

from __future__ import annotations


class BenchError(Exception):
    """One line for the user: the thing, the place and the way out. The command prints it and exits with 2."""


class Stopped(Exception):
    """The command that started this load generator is gone: clean up and leave."""
