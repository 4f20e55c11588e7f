"""The patterns of a topic exchange, and the targets that they choose for a routing key."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class _Node(Generic[T]):
    """A node in the trie of patterns. `targets` counts how often each target was added to it."""

    __slots__ = ("children", "hash", "repeats", "star", "targets")

    def __init__(self, repeats: bool = False) -> None:
        self.children: dict[str, _Node[T]] | None = None
        self.star: _Node[T] | None = None
        self.hash: _Node[T] | None = None
        # The node of a `#`: any further word may stay here.
        self.repeats = repeats
        self.targets: dict[T, int] | None = None

    def is_bare(self) -> bool:
        return not (self.targets or self.children or self.star or self.hash)


class TopicTable(Generic[T]):
    """Patterns of words divided by dots: `*` stands for exactly one word, `#` for any number of them, also none.

    An empty routing key has no words, as in RabbitMQ; a dot always divides two words, either of which may be empty.
    """

    __slots__ = ("_exact", "_root")

    def __init__(self) -> None:
        # A pattern without wildcards needs no walk.
        self._exact: dict[str, dict[T, int]] = {}
        self._root: _Node[T] = _Node()

    def add(self, pattern: str, target: T) -> None:
        """Bind `target`; added twice, it must be removed twice."""
        words = _words(pattern)
        if "*" not in words and "#" not in words:
            counts = self._exact.setdefault(pattern, {})
        else:
            node = self._root
            for word in _without_double_hashes(words):
                node = _grow(node, word)
            if node.targets is None:
                node.targets = {}
            counts = node.targets
        counts[target] = counts.get(target, 0) + 1

    def remove(self, pattern: str, target: T) -> None:
        """Take back one `add`. KeyError if there was none."""
        words = _words(pattern)
        if "*" not in words and "#" not in words:
            counts = self._exact[pattern]
            _count_down(counts, target)
            if not counts:
                del self._exact[pattern]
            return
        words = _without_double_hashes(words)
        path = [self._root]
        for word in words:
            child = _child(path[-1], word)
            if child is None:
                raise KeyError(pattern)
            path.append(child)
        targets = path[-1].targets
        if targets is None:
            raise KeyError(pattern)
        _count_down(targets, target)
        if not targets:
            path[-1].targets = None
        for node, word in zip(reversed(path[:-1]), reversed(words), strict=True):
            child = path.pop()
            if not child.is_bare():
                break
            _prune(node, word)

    def match(self, routing_key: str) -> list[T]:
        """The targets of all patterns that `routing_key` matches, each once."""
        exact = self._exact.get(routing_key)
        root = self._root
        if root.children is None and root.star is None and root.hash is None:
            return list(exact) if exact else []
        frontier = [root] if root.hash is None else [root, root.hash]
        for word in _words(routing_key):
            frontier = _step(frontier, word)
            if not frontier:
                return list(exact) if exact else []
        hits = [node.targets for node in frontier if node.targets]
        if exact:
            hits.append(exact)
        if len(hits) == 1:
            return list(hits[0])
        found: dict[T, int] = {}
        for targets in hits:
            found.update(targets)
        return list(found)


def _words(text: str) -> list[str]:
    return text.split(".") if text else []


def _without_double_hashes(words: list[str]) -> list[str]:
    """`#.#` matches the same as `#`."""
    return [word for index, word in enumerate(words) if word != "#" or index == 0 or words[index - 1] != "#"]


def _step(frontier: list[_Node[T]], word: str) -> list[_Node[T]]:
    """All nodes one word further on. Each appears once, so a match visits at most every node once for every word."""
    following = [node for node in frontier if node.repeats]
    # Only a node of `#` can be reached twice: by staying and by its parent, which another word may have reached again.
    staying = set(following)
    for node in frontier:
        children = node.children
        if children is not None:
            child = children.get(word)
            if child is not None:
                following.append(child)
                after = child.hash
                if after is not None and after not in staying:
                    following.append(after)
        star = node.star
        if star is not None:
            following.append(star)
            after = star.hash
            if after is not None and after not in staying:
                following.append(after)
    return following


def _child(node: _Node[T], word: str) -> _Node[T] | None:
    if word == "*":
        return node.star
    if word == "#":
        return node.hash
    return node.children.get(word) if node.children is not None else None


def _grow(node: _Node[T], word: str) -> _Node[T]:
    child = _child(node, word)
    if child is not None:
        return child
    child = _Node(repeats=word == "#")
    if word == "*":
        node.star = child
    elif word == "#":
        node.hash = child
    elif node.children is None:
        node.children = {word: child}
    else:
        node.children[word] = child
    return child


def _prune(node: _Node[T], word: str) -> None:
    if word == "*":
        node.star = None
    elif word == "#":
        node.hash = None
    else:
        assert node.children is not None
        del node.children[word]
        if not node.children:
            node.children = None


def _count_down(counts: dict[T, int], target: T) -> None:
    if counts[target] == 1:
        del counts[target]
    else:
        counts[target] -= 1
