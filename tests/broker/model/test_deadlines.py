"""What must happen later happens once, and in time."""

from __future__ import annotations

from openclust.broker.model.deadlines import Deadlines


class Sleeper:
    """Notes when it was woken; `again_ms` is for how long it then sleeps."""

    def __init__(self, deadlines: Deadlines, again_ms: int = 0) -> None:
        self.deadlines = deadlines
        self.deadline_ms = 0
        self.again_ms = again_ms
        self.woken: list[int] = []

    def on_deadline(self, now_ms: int) -> None:
        self.woken.append(now_ms)
        if self.again_ms:
            self.deadlines.wake(self, now_ms + self.again_ms)


def test_a_waiter_is_woken_at_its_moment_and_once() -> None:
    deadlines = Deadlines()
    sleeper = Sleeper(deadlines)
    deadlines.wake(sleeper, 100)
    deadlines.run(99)
    assert sleeper.woken == []
    deadlines.run(100)
    deadlines.run(200)
    assert sleeper.woken == [100]


def test_only_an_earlier_moment_replaces_the_one_that_is_set() -> None:
    deadlines = Deadlines()
    sleeper = Sleeper(deadlines)
    deadlines.wake(sleeper, 100)
    deadlines.wake(sleeper, 150)
    deadlines.wake(sleeper, 50)
    assert deadlines.next_ms() == 50
    deadlines.run(300)
    assert sleeper.woken == [300]


def test_a_waiter_may_sleep_on() -> None:
    deadlines = Deadlines()
    sleeper = Sleeper(deadlines, again_ms=10)
    deadlines.wake(sleeper, 100)
    for now_ms in (100, 105, 110, 120):
        deadlines.run(now_ms)
    assert sleeper.woken == [100, 110, 120]


def test_a_waiter_that_wants_it_no_more_is_left_alone() -> None:
    deadlines = Deadlines()
    one, two = Sleeper(deadlines), Sleeper(deadlines)
    deadlines.wake(one, 100)
    deadlines.wake(two, 200)
    one.deadline_ms = 0
    assert deadlines.next_ms() == 200
    deadlines.run(1_000)
    assert (one.woken, two.woken) == ([], [1_000])
    assert deadlines.next_ms() == 0


def test_waiters_wake_in_the_order_of_their_moments_and_of_their_asking() -> None:
    deadlines = Deadlines()
    order: list[str] = []

    class Named(Sleeper):
        def __init__(self, name: str) -> None:
            super().__init__(deadlines)
            self.name = name

        def on_deadline(self, now_ms: int) -> None:
            order.append(self.name)

    for name, at_ms in (("late", 30), ("first", 10), ("second", 10), ("middle", 20)):
        deadlines.wake(Named(name), at_ms)
    deadlines.run(30)
    assert order == ["first", "second", "middle", "late"]


def test_the_dead_are_swept_away_and_the_living_stay() -> None:
    deadlines = Deadlines()
    living = [Sleeper(deadlines) for _ in range(300)]
    for sleeper in living:
        deadlines.wake(sleeper, 5_000)
    for number in range(20_000):
        dead = Sleeper(deadlines)
        deadlines.wake(dead, 10_000 + number)
        dead.deadline_ms = 0
    assert len(deadlines) <= 2 * 300 + 257
    deadlines.run(5_000)
    assert all(sleeper.woken == [5_000] for sleeper in living)
