"""The rules, a module for each group. Whoever adds one adds a failing and a passing file to the tests as well, and runs
`python -m topology.rules.rule_table`."""

from topology.rules import capacity, file, links, live, names, quorum, security, timing

__all__ = ["capacity", "file", "links", "live", "names", "quorum", "security", "timing"]
