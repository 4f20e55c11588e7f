"""The limit of open files."""

from __future__ import annotations

import resource

import pytest

from openclust.shell.host.open_files import raise_open_files_limit


def test_the_soft_limit_is_raised_to_the_hard_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 4_096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: made.append(limits))
    assert raise_open_files_limit() == 4_096
    assert made == [(4_096, 4_096)]


def test_a_system_that_refuses_leaves_it_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert raise_open_files_limit() == 1_024
