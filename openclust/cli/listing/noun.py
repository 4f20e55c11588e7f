"""A kind of object that can be listed: where its rows are, and which columns people want to see."""

from __future__ import annotations

from typing import Any, NamedTuple


class Column(NamedTuple):
    """A column of RabbitMQ's rows, by its path, and its heading in a table."""

    path: str
    heading: str

    def value(self, row: dict[str, Any]) -> Any:
        """What the row has there; None if it has nothing."""
        found: Any = row
        for part in self.path.split("."):
            if not isinstance(found, dict):
                return None
            found = found.get(part)
        return found


class Noun(NamedTuple):
    """`in_vhost` is the path of those of one virtual host. `name_paths` are where an object has its name."""

    name: str
    path: str
    in_vhost: str
    columns: tuple[Column, ...]
    """The most important first: the last ones are left out where a terminal is too narrow."""
    name_paths: tuple[str, ...] = ("name",)

    def chosen(self, paths: tuple[str, ...]) -> tuple[Column, ...]:
        """The columns of those paths or headings, and the usual ones if none is named."""
        by_heading = {each.heading.replace(" ", "_"): each for each in self.columns}
        by_path = {each.path: each for each in self.columns}
        return tuple(by_path.get(path) or by_heading.get(path) or Column(path, path) for path in paths) or self.columns


def columns_of(*pairs: str) -> tuple[Column, ...]:
    """`columns_of("name", "messages_ready ready")`: a path, and a heading where it is not the path."""
    found = []
    for pair in pairs:
        path, _, heading = pair.partition(" ")
        found.append(Column(path, heading or path))
    return tuple(found)
