"""Resolves the names in a cluster file by this machine's resolver, for `openclust lint --resolve`."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterable

from topology.model.address import is_ip, spelled

WAIT_S = 10.0
"""The longest wait for all names together, if a name server does not answer."""

THREADS_MAX = 16

Resolved = dict[str, tuple[str, ...]]
"""The addresses of each name in normal spelling; none if there was no answer in time."""


def resolve(hosts: Iterable[str], *, wait_s: float = WAIT_S) -> Resolved:
    """Resolve hosts, given in normal spelling. IP addresses among them are left out."""
    names = [each for each in dict.fromkeys(hosts) if each and not is_ip(each)]
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        waiting.put(name)
    found: Resolved = {}
    threads = [threading.Thread(target=_answer, args=(waiting, found), daemon=True) for _ in names[:THREADS_MAX]]
    for thread in threads:
        thread.start()
    until = time.monotonic() + wait_s
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return {name: found.get(name, ()) for name in names}


def _answer(waiting: queue.SimpleQueue[str], found: Resolved) -> None:
    while True:
        try:
            name = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            told = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            found[name] = tuple(sorted({spelled(str(each[4][0])) for each in told}))
        except (OSError, UnicodeError):
            found[name] = ()
