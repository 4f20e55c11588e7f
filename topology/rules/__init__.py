"""The rules, one module a group. To add one: write a function under `@rule`, a failing and a passing file in the tests,
and run `python -m topology.rule_table`."""

from topology.rules import file

__all__ = ["file"]
