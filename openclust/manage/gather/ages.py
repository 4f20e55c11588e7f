"""How far back a caller wants to see numbers: RabbitMQ's parameters `lengths_age`, `lengths_incr` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Literal, TypeAlias

import msgspec

from openclust.manage.gather.selection import BadSelection

SAMPLES_MAX = 600
"""So many samples of one number an answer may have."""
AGE_S_MAX = 86_400
FAMILIES = ("lengths", "msg_rates", "data_rates")
Family: TypeAlias = Literal["lengths", "msg_rates", "data_rates"]
"""What is sampled: lengths of queues, counts of messages, and bytes of connections."""


class Ages(msgspec.Struct, frozen=True):
    """For each family the seconds to look back and the seconds between samples; (0, 0) where none are wanted."""

    lengths: tuple[int, int] = (0, 0)
    msg_rates: tuple[int, int] = (0, 0)
    data_rates: tuple[int, int] = (0, 0)

    def times_ms(self, family: Family, now_ms: int) -> list[int]:
        """The moments that are wanted, the latest first. All brokers find the same ones, by their wall clocks."""
        age_s, step_s = self.of(family)
        if not step_s:
            return []
        last = now_ms // (step_s * 1_000) * step_s * 1_000
        return [last - each * step_s * 1_000 for each in range(age_s // step_s + 1)]

    def of(self, family: Family) -> tuple[int, int]:
        match family:
            case "lengths":
                return self.lengths
            case "msg_rates":
                return self.msg_rates
            case "data_rates":
                return self.data_rates


NO_AGES = Ages()

ages: ContextVar[Ages] = ContextVar("ages", default=NO_AGES)
"""What the caller of this task wants: rows look here, and need not be handed it."""


def ages_of(query: Mapping[str, str]) -> Ages:
    """What a query string asks for; BadSelection names the parameter that is wrong."""
    return Ages(*(_family(query, each) for each in FAMILIES))


def _family(query: Mapping[str, str], name: str) -> tuple[int, int]:
    """As in RabbitMQ, an age without a step asks for nothing, and neither does a step without an age."""
    age_s, step_s = (_seconds(query, f"{name}_{each}") for each in ("age", "incr"))
    if not age_s or not step_s:
        return (0, 0)
    if age_s // step_s > SAMPLES_MAX:
        raise BadSelection(f"{name}_age is at most {SAMPLES_MAX} times {name}_incr")
    return (age_s, step_s)


def _seconds(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) <= AGE_S_MAX):
        raise BadSelection(f"{name} is a number of seconds, at most {AGE_S_MAX}")
    return int(text)
