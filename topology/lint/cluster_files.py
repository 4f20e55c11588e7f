"""Cluster files in a folder: TOML files that name primaries or the places of brokers."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Sequence

from openclust.shell.config.load import FILE_BYTES_MAX

FOUND_MAX = 10_000


def expanded(paths: Sequence[str]) -> list[str]:
    """The files as given, and for a folder the cluster files below it. Raises FileNotFoundError if it has none."""
    found: dict[str, None] = {}
    for path in paths:
        if not os.path.isdir(path):
            found[path] = None
            continue
        within = list(_within(path))
        if not within:
            raise FileNotFoundError(f"{path}: no cluster file in this directory or below: a TOML file with primaries")
        found.update(dict.fromkeys(within))
    return list(found)


def _within(folder: str) -> Iterator[str]:
    count = 0
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(files):
            path = os.path.join(here, name)
            if name.endswith(".toml") and not name.startswith(".") and is_cluster_file(path):
                count += 1
                if count > FOUND_MAX:
                    return
                yield path


def is_cluster_file(path: str) -> bool:
    """Whether it is a cluster file. Invalid TOML counts, if it has a section that only cluster files have."""
    try:
        with open(path, "rb") as stream:
            text = stream.read(FILE_BYTES_MAX + 1).decode("utf-8", "replace")
    except OSError:
        return False
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return bool(re.search(r"^\s*\[+\s*(?:cluster\s*\.\s*primaries|topology)\b", text, re.MULTILINE))
    cluster = document.get("cluster")
    return bool(document.get("topology")) or (isinstance(cluster, dict) and bool(cluster.get("primaries")))
