"""A backlog between memory and disk against a plain sorted list."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.backlog import page as page_module
from openclust.broker.backlog.backlog import Entry
from openclust.broker.backlog.page import PageState, found_page
from openclust.broker.backlog.page_index import PageIndex
from openclust.broker.backlog.paged_backlog import UnloadedEntries, size_of
from openclust.broker.journal.journal import KEPT
from tests.support.examples import examples
from tests.support.paged_place import Place

SMALL_PAGE = 400


@pytest.fixture(autouse=True, scope="module")
def _small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "PAGE_BYTES", SMALL_PAGE)
        yield


OFTEN = ["push", "pop", "put_back", "checkpoint", "shelve", "undone"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [*OFTEN, *OFTEN, *OFTEN, "transient", "settle", "drop_head", "remove", "take_back", "expire", "run", "load"]
        ),
        st.integers(0, 40),
    ),
    max_size=100,
)


class Telling:
    """The same done to a backlog and to a list; whoever takes out and puts back does so with all accounts."""

    def __init__(self) -> None:
        self.place = Place()
        self.ready: dict[int, tuple[bytes, int]] = {}
        self.out: list[Entry] = []
        self.taken_away: list[tuple[Entry, dict[int, tuple[bytes, int]]]] = []
        self.transient: set[int] = set()

    def step(self, step: str, pick: int) -> None:
        backlog, page_store, queue = self.place.backlog, self.place.page_store, self.place.queue
        if step in ("push", "transient"):
            expires_ms = pick if pick % 3 == 0 else 0
            recorded = 0 if step == "transient" else -KEPT
            for one in self.place.push(pick % 9 + 1, recorded=recorded, expires_ms=expires_ms, size=pick):
                self.ready[one.seq] = one.message.body, expires_ms
                if not recorded:
                    self.transient.add(one.seq)
        elif step in ("pop", "drop_head"):
            first = min(self.ready, default=None)
            head = backlog.peek()
            assert (head.seq if head is not None else None) == first
            taken = backlog.pop() if step == "pop" else backlog.drop_head()
            assert taken is head
            if taken is not None:
                assert self.ready.pop(taken.seq) == (taken.message.body, taken.expires_ms)
                if step == "pop":
                    self.out.append(taken)
                else:
                    page_store.left(queue, taken)
        elif step == "put_back" and self.out:
            one = self.out.pop(pick % len(self.out))
            assert backlog.put_back(one)
            self.ready[one.seq] = one.message.body, one.expires_ms
        elif step == "settle" and self.out:
            page_store.left(queue, self.out.pop(pick % len(self.out)))
        elif step == "remove" and self.ready:
            self._remove(sorted(self.ready)[pick % len(self.ready)])
        elif step == "run" and self.ready:
            seqs = sorted(self.ready)
            first = seqs[pick % len(seqs)]
            found = backlog.between(first, first + pick)
            gone = {seq: self.ready.pop(seq) for seq in seqs if first <= seq <= first + pick}
            assert sum(map(size_of, found)) == sum(len(body) for body, _ in gone.values())
            for each in found:
                backlog.remove(each)
                page_store.left(queue, each)
        elif step == "take_back" and self.taken_away:
            one, gone = self.taken_away.pop()
            one.recorded = -KEPT
            self.transient -= gone.keys()
            queue.reinstate(one)
            self.ready |= gone
        elif step == "undone" and self.ready:
            self.place.undo(sorted(self.ready)[-1 - pick % len(self.ready)])
        elif step == "expire":
            due = []
            while (first := min(self.ready, default=None)) and 0 < self.ready[first][1] <= pick:
                due.append(first)
                del self.ready[first]
            expired = backlog.pop_expired(pick)
            assert [each.seq for each in expired] == due
            for each in expired:
                page_store.left(queue, each)
        elif step == "load" and backlog.page_index.unloaded_pages:
            assert backlog.load(backlog.page_index.unloaded_pages[pick % len(backlog.page_index.unloaded_pages)])
        elif step == "checkpoint":
            # What is removed may be put back until then.
            self.taken_away.clear()
            self.place.checkpoint()
        elif step == "shelve":
            self.place.unload()
        assert len(backlog) == len(self.ready)

    def _remove(self, seq: int) -> None:
        one = self.place.queue.remove(seq)
        assert one is not None and one.seq == seq
        assert size_of(one) == len(self.ready[seq][0])
        self.taken_away.append((one, {seq: self.ready.pop(seq)}))


@examples(60)
@given(steps=STEPS)
def test_a_paged_backlog_behaves_as_the_sorted_list_does(steps: list[tuple[str, int]]) -> None:
    telling = Telling()
    for step, pick in steps:
        telling.step(step, pick)
    backlog = telling.place.backlog
    expected = [(seq, telling.ready[seq][0]) for seq in sorted(telling.ready)]
    assert [(one.seq, one.message.body) for one in backlog] == expected
    assert backlog.next_expiry_ms() == (telling.ready[expected[0][0]][1] if expected else 0)
    telling.place.checkpoint()
    delivered = [(one.seq, one.message.body) for one in telling.out if one.recorded]
    assert telling.place.found() == dict([each for each in expected if each[0] not in telling.transient] + delivered)
    assert [(one.seq, one.message.body) for one in iter(backlog.pop, None)] == expected


# -- what stays in memory, and what is read


@pytest.fixture
def place() -> Place:
    return Place()


def test_the_head_and_what_is_in_no_page_stay_in_memory(place: Place) -> None:
    place.push(100)
    place.checkpoint()
    place.push(7)
    place.unload()
    kept = [one.seq for one in place.backlog.memory]
    assert kept[:5] == [1, 2, 3, 4, 5] and kept[-7:] == list(range(101, 108))
    assert len(kept) < 30 and len(place.backlog) == 107
    assert place.broker.memory_accounts.held_bytes == sum(one.message.cost for one in place.backlog.memory)


def test_nothing_leaves_memory_before_its_page_is_on_disk(place: Place) -> None:
    place.push(100)
    place.checkpoint()
    assert place.backlog.unload(2**40, 0) == 0
    assert place.unload() > 0


def test_what_consumers_hold_stays_in_memory(place: Place) -> None:
    place.push(50)
    held = [place.backlog.pop() for _ in range(20)]
    place.checkpoint()
    place.unload()
    for one in held[10:]:
        assert one is not None and place.backlog.put_back(one)
    assert [one.seq for one in iter(place.backlog.pop, None)] == list(range(11, 51))


def test_what_was_put_back_and_then_left_for_good_is_in_no_page(place: Place) -> None:
    place.push(100)
    place.checkpoint()
    place.undo(90)
    place.unload()
    assert place.backlog.find(89) != place.backlog.memory.find(89), "it is in no memory"
    assert len(place.settle(100)) == 100
    place.checkpoint()
    assert place.found() == {}


def test_what_had_left_and_was_put_back_is_in_memory_until_it_is_in_a_page_again(place: Place) -> None:
    """The pages in which it was are gone with the next checkpoint."""
    place.push(100)
    place.checkpoint()
    for seq in range(80, 96):
        one = place.queue.remove(seq)
        assert one is not None
        one.recorded = -KEPT
        place.queue.reinstate(one)
        assert place.backlog.find(seq) is not None
    place.unload()
    place.checkpoint()
    assert sorted(place.found()) == list(range(1, 101))
    assert [each.seq for each in iter(place.backlog.pop, None)] == list(range(1, 101))


def test_how_often_it_was_delivered_outlives_a_time_on_disk(place: Place) -> None:
    place.push(100)
    place.checkpoint()
    one = place.backlog.find(90)
    assert one is not None
    one.deliveries = 2
    place.page_store.returned(place.queue, one)
    place.unload()
    place.backlog.load_message(90)
    again = place.backlog.find(90)
    assert again is not None and again is not one and again.deliveries == 2


def test_following_reads_no_page(place: Place) -> None:
    place.push(200)
    place.checkpoint()
    place.unload()
    for seq in range(60, 120):
        one = place.backlog.find(seq)
        assert isinstance(one, UnloadedEntries)
        place.backlog.remove(one)
    assert place.disk.reads == 0 and len(place.backlog) == 140
    assert [one.seq for one in iter(place.backlog.pop, None)] == [*range(1, 60), *range(120, 201)]


def test_a_purge_reads_no_page_and_tells_all_places(place: Place) -> None:
    place.push(200)
    place.checkpoint()
    place.unload()
    cleared = place.backlog.clear()
    runs = [run for one in cleared if isinstance(one, UnloadedEntries) for run in one.runs]
    told = {one.seq for one in cleared if not isinstance(one, UnloadedEntries)}
    for at in range(0, len(runs), 2):
        told |= set(range(runs[at], runs[at + 1] + 1))
    assert told == set(range(1, 201))
    assert place.disk.reads == 0 and len(place.backlog) == 0


def test_places_that_are_used_anew_are_those_of_the_newest_page(place: Place) -> None:
    place.push(30)
    place.checkpoint()
    for seq in range(20, 31):
        assert place.queue.remove(seq) is not None
    place.seq = 19
    anew = place.push(15, size=33)
    place.checkpoint()
    place.push(20)
    place.checkpoint()
    place.unload()
    found = list(iter(place.backlog.pop, None))
    assert [one.seq for one in found] == list(range(1, 55))
    assert [one.message.body for one in found[19:34]] == [one.message.body for one in anew]


def test_what_came_back_into_a_page_of_its_own_leaves_with_what_had_stayed(place: Place) -> None:
    """Two pages have the same first place then, and the newer one ends earlier."""
    place.push(3)
    place.checkpoint()
    taken = place.settle(2)
    place.checkpoint()
    for one in taken:
        place.put_back(one)
    place.checkpoint()
    assert len(place.settle(3)) == 3
    place.checkpoint()
    assert place.page_store.page_index(place.queue).pages == []


def test_what_takes_the_places_of_all_that_a_queue_had_is_not_taken_for_what_its_pages_have(place: Place) -> None:
    place.push(40)
    place.checkpoint()
    for one in place.backlog.clear():
        place.page_store.left(place.queue, one)
    place.page_store.emptied(place.queue)
    place.seq = 0
    anew = [one.message.body for one in place.push(40, size=33)]
    place.unload()
    assert [one.message.body for one in place.backlog] == anew
    place.checkpoint()
    place.unload()
    assert len(place.backlog.memory) < 40
    assert [one.message.body for one in iter(place.backlog.pop, None)] == anew


def test_a_page_that_cannot_be_read_leaves_the_length_and_no_head(place: Place) -> None:
    place.push(60)
    place.checkpoint()
    place.unload()
    place.disk.is_broken = True
    first = list(iter(place.backlog.pop, None))
    assert len(place.backlog) == 60 - len(first) > 0
    assert place.backlog.peek() is None and place.backlog.heads() == [] and place.backlog.next_expiry_ms() == 0
    place.disk.is_broken = False
    assert [one.seq for one in first + list(iter(place.backlog.pop, None))] == list(range(1, 61))


# -- pages and their index


@given(alive=st.sets(st.integers(0, 300), min_size=1), first=st.integers(1, 2**62), uniform=st.booleans())
def test_a_page_is_found_as_it_was_noted(alive: set[int], first: int, *, uniform: bool) -> None:
    bits = sum(1 << place for place in alive)
    told = PageState(7, first, first + 300, bits, 5, deliveries={first: 3})
    if not uniform:
        told.sizes = page_module.array("I", range(301))
    found = found_page(7, first, first + 300, 301, 5 * 301, told.notes())
    assert (found.alive, found.unloaded, found.deliveries) == (bits, bits, {first: 3})
    assert found.size(bits) == told.size(bits) == (5 * len(alive) if uniform else sum(alive))
    runs = found.runs(bits)
    places = [place for at in range(0, len(runs), 2) for place in range(runs[at], runs[at + 1] + 1)]
    assert places == [first + place for place in sorted(alive)]
    assert all(after > before + 1 for before, after in zip(runs[1::2], runs[2::2], strict=False))


@pytest.mark.parametrize(("first", "last", "count"), [(5, 4, 1), (0, 3, 1), (1, 3, 4), (1, 9_000, 10), (1, 3, 0)])
def test_a_page_that_cannot_be_is_refused(first: int, last: int, count: int) -> None:
    with pytest.raises(ValueError, match="page 3"):
        found_page(3, first, last, count, 10, b"")


def test_an_index_knows_how_much_is_unloaded_and_where_the_first_of_it_is(
    make_page: Callable[[int, int], PageState],
) -> None:
    page_index = PageIndex()
    pages = [make_page(1, 10), make_page(11, 20), make_page(21, 30)]
    for each in pages:
        page_index.add(each)
    page_index.mark_unloaded(pages[2], pages[2].between(25, 30))
    page_index.mark_unloaded(pages[1], pages[1].between(15, 16))
    assert (page_index.unloaded_count, page_index.lowest_unloaded, page_index.next_unloaded) == (8, 15, pages[1])
    page_index.mark_loaded(pages[1], pages[1].between(15, 15))
    assert (page_index.unloaded_count, page_index.lowest_unloaded) == (7, 16)
    page_index.drop(pages[1])
    assert (page_index.unloaded_count, page_index.lowest_unloaded, page_index.next_unloaded) == (6, 25, pages[2])
    assert page_index.find(15) is None and page_index.find(10) is pages[0] and page_index.find(31) is None


def test_where_pages_overlap_the_lowest_place_of_all_is_the_first(make_page: Callable[[int, int], PageState]) -> None:
    page_index = PageIndex()
    wide, narrow = make_page(1, 30), make_page(10, 15)
    for each in (wide, narrow):
        page_index.add(each)
    page_index.mark_unloaded(wide, wide.between(12, 30))
    page_index.mark_unloaded(narrow, narrow.between(13, 15))
    assert (page_index.lowest_unloaded, page_index.next_unloaded) == (12, wide)
    page_index.mark_loaded(wide, wide.between(12, 13))
    assert (page_index.lowest_unloaded, page_index.next_unloaded) == (13, narrow)
    wide.alive &= ~wide.between(10, 15)
    assert page_index.find(11) is narrow and page_index.find(20) is wide


@pytest.fixture
def make_page() -> Callable[[int, int], PageState]:
    return lambda first, last: PageState(first, first, last, (1 << (last - first + 1)) - 1, 1)
