"""The walks of docs/architecture.md: a message takes the hops that the page names, in their order."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from openclust.wire.methods import BasicQos, BasicQosOk, ConfirmSelect, ConfirmSelectOk
from tests.support.cluster.joined import Joined
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NOT_IN_MEMORY = {"Node.receive", "Following.on_disk"}
"""Hops that need a socket or a disk; so do those of the shell."""
HOP = re.compile(r"^\| \d+ \|.*?`(openclust/[\w/]+\.py)::([\w.]+)` \|", re.MULTILINE)


def hops(title: str) -> list[tuple[str, str]]:
    """File and function of each hop under a heading that brokers in memory make."""
    table = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    found = HOP.findall(table)
    assert found, f"docs/architecture.md has no hops under '{title}'"
    return [
        (file, name) for file, name in found if not file.startswith("openclust/shell/") and name not in NOT_IN_MEMORY
    ]


def calls_of(act: Callable[[], None]) -> list[tuple[str, str]]:
    """File and function of each call, in their order."""
    calls: list[tuple[str, str]] = []
    root = f"{ROOT}/"

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            calls.append((frame.f_code.co_filename.removeprefix(root), frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls


def assert_in_order(wanted: list[tuple[str, str]], calls: list[tuple[str, str]]) -> None:
    at = 0
    for file, name in wanted:
        found = next((number for number in range(at, len(calls)) if calls[number] == (file, name)), None)
        assert found is not None, f"docs/architecture.md: no call of {file}::{name} after the hop before it"
        at = found + 1


def test_a_message_to_many_subscribers_takes_the_hops_of_the_page() -> None:
    joined = Joined("p1")
    for _ in range(3):
        subscriber = joined.client("p1")
        name = subscriber.queue(exclusive=True)
        subscriber.bind(name, "amq.fanout")
        subscriber.consume(name, no_ack=True)
    publisher = joined.client("p1")
    publisher.publish("", b"before", exchange="amq.fanout")
    calls = calls_of(lambda: publisher.publish("", b"hello", exchange="amq.fanout"))
    assert_in_order(hops("One message to a thousand subscribers"), calls)


def test_a_message_through_a_replicated_queue_takes_the_hops_of_the_page() -> None:
    joined = Joined("p1", "p2", "p3", secondaries=["s1"])
    publisher, consumer = joined.client("s1"), joined.client("p2")
    publisher.queue("orders", durable=True)
    publisher.call(ConfirmSelect(), ConfirmSelectOk)
    consumer.call(BasicQos(prefetch_count=10), BasicQosOk)
    consumer.consume("orders")

    def publish_and_acknowledge() -> None:
        publisher.publish("orders", b"first", delivery_mode=2)
        consumer.ack(consumer.deliveries()[0].tag)

    calls = calls_of(publish_and_acknowledge)
    assert len(publisher.confirms) == 1
    assert_in_order(hops("One message through a replicated queue"), calls)
