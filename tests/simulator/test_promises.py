"""What the record of promises notices, and what it lets pass."""

from __future__ import annotations

import pytest

from tests.simulator.invariants import Violation
from tests.simulator.promises import Giver, Heard, Promises
from tests.simulator.targets import to_queue

QUEUE = "d.two"


def acknowledged(promises: Promises, epoch: int) -> str:
    """The id of a message that was published and taken at the root of an epoch; that it was taken is committed."""
    letter = promises.new(to_queue(QUEUE), "key", 0, 1)
    promises.published(letter, promises.session(), epoch)
    promises.confirmed(letter, epoch, 2)
    promises.delivered(QUEUE, letter.id, epoch, 3)
    letter.settled.add(QUEUE)
    letter.gone[QUEUE] = epoch
    return letter.id


def test_a_message_whose_ack_was_committed_may_not_come_again() -> None:
    promises = Promises(lambda: False)
    letter_id = acknowledged(promises, 1)
    with pytest.raises(Violation, match=r"came out of d\.two again"):
        promises.delivered(QUEUE, letter_id, 3, 4)


def heard(*epochs: int, tries: int = 1, is_confirmed: bool = True, copies: int = 1, here: int = 1) -> Promises:
    """A publisher's two messages, the later one of which came first, in these epochs; so many copies of each, and so
    many of these to one consumer, not marked.
    """
    promises = Promises(lambda: True)
    session, hearing = promises.session(), promises.hearing(QUEUE)
    letters = [promises.new(to_queue(QUEUE), "key", 0, 1) for _ in epochs]
    for letter, epoch in zip(reversed(letters), epochs, strict=True):
        for _ in range(tries):
            promises.published(letter, session, 0)
        if is_confirmed:
            promises.confirmed(letter, epoch, 2)
        for _ in range(copies):
            promises.delivered(QUEUE, letter.id, epoch, 3)
        hearing += [Heard(letter, (epoch, 1))] * here
    return promises


def test_what_came_after_a_later_one_is_noticed_whatever_roots_gave_it() -> None:
    for epochs in ((1, 1), (1, 2)):
        with pytest.raises(Violation, match="message m1 came after m2, though it was published before"):
            heard(*epochs).look()


def test_what_was_published_again_or_never_confirmed_has_no_place_in_the_order() -> None:
    heard(1, 2, tries=2).look()
    heard(1, 2, is_confirmed=False).look()


def test_of_what_came_twice_to_one_consumer_the_first_copies_are_in_order() -> None:
    with pytest.raises(Violation, match="message m1 came after m2, though it was published before"):
        heard(1, 2, copies=2, here=2).look()


def test_of_what_came_to_two_consumers_it_cannot_be_known_which_copy_was_the_first() -> None:
    heard(1, 2, copies=2, here=1).look()


def heard_twice(again: Giver) -> Promises:
    """Two messages that their root took in once came to one consumer, and again from another giver; the first of them
    came a third time, marked as redelivered.
    """
    promises = Promises(lambda: True)
    session, hearing = promises.session(), promises.hearing(QUEUE)
    letters = [promises.new(to_queue(QUEUE), "key", 0, 1) for _ in range(2)]
    for letter, copies in zip(letters, (3, 2), strict=True):
        promises.published(letter, session, 1)
        promises.confirmed(letter, 1, 2)
        for _ in range(copies):
            promises.delivered(QUEUE, letter.id, 1, 3)
    hearing += [Heard(letter, (1, 1)) for letter in letters]
    hearing += [Heard(letter, again) for letter in letters]
    return promises


def test_a_root_gives_nothing_again_without_a_mark() -> None:
    with pytest.raises(Violation, match="message m1 came after m2, though it was published before"):
        heard_twice((1, 1)).look()


def test_a_root_that_started_anew_may_have_forgotten_what_it_gave() -> None:
    heard_twice((1, 2)).look()


def test_it_may_where_the_broker_is_gone_that_alone_knew_and_kept_nothing() -> None:
    lost: list[bool] = []
    promises = Promises(lambda: bool(lost))
    letter_id = acknowledged(promises, 1)
    lost.append(True)
    promises.delivered(QUEUE, letter_id, 3, 4)
