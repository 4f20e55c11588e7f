"""Options of all commands that start brokers to measure them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


DATA_IN = "Where the brokers' data directories go.  [default: somewhere on a disk]"


def data_in_option(text: str = DATA_IN) -> Callable[[Command], Command]:
    return _folder_option("--data-in", text)


def compare_checkout_option(text: str) -> Callable[[Command], Command]:
    return _folder_option("--compare-checkout", text)


def _folder_option(name: str, text: str) -> Callable[[Command], Command]:
    folder = click.Path(file_okay=False, exists=True, path_type=Path)
    return click.option(name, type=folder, metavar="DIR", help=text)
