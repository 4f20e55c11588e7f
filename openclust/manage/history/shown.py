"""What rows show of the history: `message_stats`, and `_details` beside lengths and bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from openclust.broker.amqp.channel import Channel
from openclust.broker.amqp.connection import Connection
from openclust.broker.queues.queue import Queue
from openclust.broker.routing.exchange import Exchange
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.gather.ages import Ages, ages
from openclust.manage.gather.selection import Row
from openclust.manage.gather.totals import summed
from openclust.manage.history.history import History, Samples
from openclust.manage.history.sample import CHURN_COLUMNS, DATA_COLUMNS, GAUGE_COLUMNS, LENGTH_COLUMNS, Sample
from openclust.manage.history.stats import columns_of, finished, messages

K = TypeVar("K", bound=Hashable)


class ShownHistory:
    """Rows ask it for what is to be added to them. It looks at `ages` for the samples that the caller wants."""

    def __init__(self, history: History) -> None:
        self._history = history

    # -- rows

    def of_queue(self, queue: Queue) -> Row:
        """With the details of its lengths, and `message_stats` if a message has ever passed."""
        return finished(self._lengths(self._history.queues, queue) | self._messages(self._history.queues, queue))

    def of_channel(self, channel: Channel) -> Row:
        return finished(self._messages(self._history.channels, channel))

    def of_connection(self, connection: Connection) -> Row:
        return finished(self._columns(self._history.connections, connection, DATA_COLUMNS, "data_rates", False))

    # -- numbers that are added to those of other brokers, before `finished`

    def of_exchange(self, exchange: Exchange) -> Row:
        return self._messages(self._history.exchanges, exchange)

    def of_vhost(self, vhost: VirtualHost) -> Row:
        """Messages, lengths and bytes."""
        samples = self._history.vhosts
        lengths = self._columns(samples, vhost, LENGTH_COLUMNS, "lengths", True)
        data = self._columns(samples, vhost, DATA_COLUMNS, "data_rates", True)
        return self._messages(samples, vhost) | lengths | data

    def of_overview(self, vhosts: Iterable[VirtualHost], *, sees_all: bool) -> Row:
        """This broker's part of the overview: `message_stats`, `churn_rates`, and details for `queue_totals`.

        Who does not see all is shown the messages of these virtual hosts alone.
        """
        samples = self._history.broker
        if not sees_all:
            seen = [
                {
                    **self._messages(self._history.vhosts, vhost),
                    "queue_totals": self._lengths(self._history.vhosts, vhost),
                }
                for vhost in vhosts
            ]
            return summed(seen)
        return {
            **self._messages(samples, None),
            "churn_rates": self._columns(samples, None, CHURN_COLUMNS, "data_rates", True),
            "queue_totals": self._lengths(samples, None),
        }

    def of_node(self) -> Row:
        """What came and went at this broker, and the details of the columns of its process."""
        churn = self._columns(self._history.broker, None, CHURN_COLUMNS, "data_rates", True)
        return finished(churn | self._columns(self._history.broker, None, GAUGE_COLUMNS, "data_rates", False))

    # -- sorting

    def queue_values(self) -> Mapping[str, Callable[[Any], Any]]:
        """Columns of queues that can be had without the whole row."""
        return _values(self._history.queues)

    def channel_values(self) -> Mapping[str, Callable[[Any], Any]]:
        return _values(self._history.channels)

    def connection_values(self) -> Mapping[str, Callable[[Any], Any]]:
        return _values(self._history.connections)

    # -- parts

    def _messages(self, samples: Samples[K], it: K) -> Row:
        wanted = messages(samples.columns)
        if it not in samples.newest:
            return {}
        return {"message_stats": self._columns(samples, it, wanted, "msg_rates", True)}

    def _lengths(self, samples: Samples[K], it: K) -> Row:
        return self._columns(samples, it, LENGTH_COLUMNS, "lengths", False)

    def _columns(self, samples: Samples[K], it: K, wanted: Iterable[str], family: Any, with_counts: bool) -> Row:
        sample = samples.newest.get(it)
        if sample is None:
            none = (0,) * len(samples.columns)
            sample = Sample(none, none, 0)
        return columns_of(
            sample,
            samples.columns,
            tuple(wanted),
            family,
            series=samples.series.get(it),
            ages=_wanted(),
            now_ms=self._history.now_ms,
            with_counts=with_counts,
        )


def _wanted() -> Ages:
    return ages.get()


def _values(samples: Samples[Any]) -> Mapping[str, Callable[[Any], Any]]:
    """By a column's path: its count and its rate."""
    found: dict[str, Callable[[Any], Any]] = {}
    of_messages = set(messages(samples.columns))
    for at, name in enumerate(samples.columns):
        path = f"message_stats.{name}" if name in of_messages else name
        if name in of_messages:
            found[path] = _count_of(samples, at)
        found[f"{path}_details.rate"] = _rate_of(samples, at)
    return found


def _count_of(samples: Samples[Any], at: int) -> Callable[[Any], Any]:
    return lambda it: None if (sample := samples.newest.get(it)) is None else sample.counts[at]


def _rate_of(samples: Samples[Any], at: int) -> Callable[[Any], Any]:
    return lambda it: 0.0 if (sample := samples.newest.get(it)) is None else sample.rate(at)
