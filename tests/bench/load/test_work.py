from __future__ import annotations

import pytest

from openclust.bench.client.bench_errors import BenchError
from openclust.bench.load.work import LoadWork


def matches(pattern: list[str], key: list[str]) -> bool:
    """The topic rule of the specification, word by word."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return matches(pattern[1:], key) or (bool(key) and matches(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


def topic_work() -> LoadWork:
    return LoadWork(pattern="topic", subscribers=30, bindings=360, keys=24)


def test_every_key_comes_to_as_many_subscribers_as_its_bindings() -> None:
    work = topic_work()
    patterns = [[key.split(".") for key in work.binding_keys(number)] for number in range(work.subscribers)]
    assert sum(map(len, patterns)) == work.bindings
    for number, key in enumerate(work.routing_keys("q")):
        fits = [sum(matches(pattern, key.split(".")) for pattern in own) for own in patterns]
        assert fits == [int(work.reaches(number, subscriber)) for subscriber in range(work.subscribers)]
        assert sum(fits) == work.deliveries_per_message == 15


def test_every_topic_binding_has_a_wildcard_and_no_queue_has_one_twice() -> None:
    work = topic_work()
    for number in range(work.subscribers):
        keys = work.binding_keys(number)
        assert all("*" in key or "#" in key for key in keys)
        assert len(set(keys)) == len(keys)


def test_all_routing_keys_differ_and_have_one_length() -> None:
    keys = LoadWork(pattern="topic", subscribers=100, bindings=10_000, keys=1_000).routing_keys("q")
    assert len(set(keys)) == 1_000
    assert len(set(map(len, keys))) == 1


def test_the_sampled_subscriber_gets_the_first_key() -> None:
    for work in (topic_work(), LoadWork(pattern="fanout", subscribers=7), LoadWork(pattern="p2p")):
        assert work.sampled_subscriber < work.subscribers
        assert work.reaches(0, work.sampled_subscriber)


def test_bindings_that_do_not_share_out_evenly_are_refused() -> None:
    with pytest.raises(BenchError, match="multiple of --keys"):
        LoadWork(pattern="topic", subscribers=100, bindings=1_001, keys=100)


def test_a_key_with_more_bindings_than_subscribers_is_refused() -> None:
    with pytest.raises(BenchError, match="--subscribers must be at least"):
        LoadWork(pattern="topic", subscribers=9, bindings=1_000, keys=100)


def test_a_fan_out_reaches_everybody_and_point_to_point_one() -> None:
    assert LoadWork(pattern="fanout", subscribers=70).deliveries_per_message == 70
    assert LoadWork(pattern="confirm").deliveries_per_message == 1
    assert LoadWork(pattern="p2p").routing_keys("bench.q") == ["bench.q"]
