"""The syntax trees of our files, parsed once for all tests that read the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


class Statement(NamedTuple):
    """One statement, whether it is inside a function, and whether it is for type checkers only."""

    node: ast.stmt
    is_lazy: bool
    is_typing: bool


def is_for_type_checkers(test: ast.expr) -> bool:
    """`TYPE_CHECKING` or `typing.TYPE_CHECKING`."""
    return "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", ""))


def statements_of(node: ast.AST, is_lazy: bool = False, is_typing: bool = False) -> Iterator[Statement]:
    """All statements below a node. `ast.walk` would look at ten times as many expressions too."""
    for block in BLOCKS:
        for inner in getattr(node, block, ()):
            if isinstance(inner, ast.stmt):
                yield Statement(inner, is_lazy, is_typing)
            yield from statements_of(
                inner,
                is_lazy or isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef),
                is_typing or (isinstance(inner, ast.If) and is_for_type_checkers(inner.test)),
            )
