"""How large the definitions are: a sum that is never too small, and a measurement where that is too large."""

from __future__ import annotations

from collections.abc import Iterator

from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import Change, DeclareQueue
from openclust.broker.server.broker import Broker
from openclust.cluster.definitions.definitions_size import MEASURE_AGAIN_MS, DefinitionsSize
from tests.support.client import new_broker

ONE = DeclareQueue(vhost="/", name="queue")
BYTES = len(encode_change(ONE))


class Definitions:
    """So many queues are there; how often they were looked at."""

    def __init__(self, *, room_for: int, slice_max: int = 10_000) -> None:
        self.broker: Broker = new_broker()
        self.there = 0
        self.looked = 0
        self.size = DefinitionsSize(self.broker, self._look, bytes_max=room_for * BYTES, slice_max=slice_max)
        self.size.know()
        self.looked = 0

    def _look(self) -> Iterator[Change]:
        self.looked += 1
        for _ in range(self.there):
            yield ONE

    def declare(self, count: int = 1) -> None:
        for _ in range(count):
            self.there += 1
            self.size.added(encode_change(ONE))

    def delete(self, count: int = 1) -> None:
        """Like all changes, it is only ever added to the sum."""
        self.there -= count
        for _ in range(count):
            self.size.added(encode_change(ONE))


def test_definitions_are_not_measured_while_their_sum_is_small() -> None:
    definitions = Definitions(room_for=100)
    definitions.declare(100)
    assert not definitions.size.is_full() and not definitions.looked


def test_definitions_that_are_too_many_are_full() -> None:
    definitions = Definitions(room_for=100)
    definitions.declare(101)
    assert definitions.size.is_full()


def test_what_was_deleted_has_left_room() -> None:
    definitions = Definitions(room_for=100)
    definitions.declare(60)
    definitions.delete(50)
    assert not definitions.size.is_full() and definitions.looked == 1
    definitions.declare(90)
    assert not definitions.size.is_full(), "a hundred are there"
    definitions.declare()
    assert definitions.size.is_full()


def full(room_for: int) -> Definitions:
    """More than is allowed, and too many to be measured in one turn."""
    definitions = Definitions(room_for=room_for, slice_max=room_for // 2)
    definitions.declare(room_for + 1)
    assert is_full(definitions)
    return definitions


def is_full(definitions: Definitions) -> bool:
    """As soon as it is known."""
    definitions.size.is_full()
    while definitions.size.is_measuring:
        definitions.size.measure_on()
    return definitions.size.is_full()


def test_full_definitions_are_not_measured_for_each_that_is_refused() -> None:
    definitions = full(1_000)
    for _ in range(50):
        assert is_full(definitions)
    definitions.declare()
    assert is_full(definitions) and definitions.looked == 1
    definitions.declare(9)
    assert is_full(definitions) and definitions.looked == 2, "a hundredth of what they may be has come"


def test_full_definitions_of_which_little_was_deleted_are_measured_a_second_later() -> None:
    definitions = full(1_000)
    definitions.broker.now_ms += MEASURE_AGAIN_MS
    assert is_full(definitions) and definitions.looked == 1, "nothing has changed"
    definitions.delete()
    assert not is_full(definitions) and definitions.looked == 2


def test_few_definitions_are_measured_whenever_they_have_changed() -> None:
    definitions = Definitions(room_for=1_000)
    definitions.declare(1_001)
    assert definitions.size.is_full() and definitions.size.is_full() and definitions.looked == 1
    definitions.delete()
    assert not definitions.size.is_full()


def test_many_definitions_are_measured_over_several_turns_and_refuse_none_meanwhile() -> None:
    definitions = Definitions(room_for=100, slice_max=10)
    definitions.declare(105)
    turns = 0
    assert not definitions.size.is_full()
    while definitions.size.is_measuring:
        definitions.size.measure_on()
        turns += 1
        if turns == 3:
            definitions.declare()
    assert turns >= 9 and definitions.size.is_full()


def test_definitions_that_the_log_does_not_tell_of_are_measured_once() -> None:
    definitions = Definitions(room_for=100)
    fresh = DefinitionsSize(definitions.broker, definitions._look, bytes_max=100 * BYTES, slice_max=10)
    definitions.there = 101
    fresh.know()
    while fresh.is_measuring:
        fresh.measure_on()
    fresh.know()
    assert fresh.is_full() and definitions.looked == 1


def test_a_snapshot_says_how_large_they_are() -> None:
    definitions = Definitions(room_for=100)
    definitions.declare(101)
    definitions.size.known(100 * BYTES)
    assert not definitions.size.is_full() and not definitions.looked
