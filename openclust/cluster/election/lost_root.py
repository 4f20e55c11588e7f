"""Why there is no root to follow any more, as a primary and a secondary tell it in the same words."""

from __future__ import annotations

from openclust.cluster.election.events import NoRoot
from openclust.cluster.protocol.status import Ended, Reign


def lost_root(
    last: Reign, ended: Ended | None, *, passed_ms: int, stood_still_ms: int, silent_ms: int | None, is_online: bool
) -> NoRoot:
    """Why the root of the `last` reign is gone, as far as this broker can see.

    `ended` is the last end of a reign that the root has told, `silent_ms` the time since its last status: None where
    its link has ended. `passed_ms` is the time since this broker looked last; after more than `stood_still_ms` it was
    this process that stood still.
    """
    if ended is not None and ended.epoch == last.epoch:
        return NoRoot(last, f"has given up its place: {ended.reason}", is_told=True)
    if passed_ms > stood_still_ms:
        return NoRoot(last, _not_heard(stood_still(passed_ms)))
    if silent_ms is None:
        return NoRoot(last, _not_heard("its link has ended"))
    if is_online:
        return NoRoot(last, "says that it is root no more", is_told=True)
    return NoRoot(last, _not_heard(f"nothing came for {silent_ms} ms"))


def _not_heard(why: str) -> str:
    return f"is not heard any more: {why}"


def stood_still(for_ms: int) -> str:
    """The reason in a log line where this process was stopped, or got no time on its machine."""
    shown = f"{for_ms / 1_000:.1f} s" if for_ms >= 1_000 else f"{for_ms} ms"
    return f"this process stood still for {shown} (stopped, or its machine is busy)"
