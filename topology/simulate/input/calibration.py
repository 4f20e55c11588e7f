"""What things cost at a broker, as measured by `openclust bench --calibrate`. Microseconds of CPU, unless told."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

import msgspec

from openclust.shell.config.schema import ConfigError

SHIPPED = "calibration.json"


class Calibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs of one broker.

    Costs that grow with a message are by the kilobyte (1,000 bytes); the others are extra. In one turn of its loop
    a broker takes what has come (`publish_us`, `relay_in_us` each), builds deliveries (`delivery_us` for each
    subscriber of each message), and then writes once to everybody who got something (`write_us`): under load many
    deliveries go with one write.
    """

    measured: str
    """The day, as 2026-11-18."""
    machine: str
    """Processor, cores, system and Python of the measured machine."""
    version: str

    turn_us: float
    publish_us: float
    publish_kb_us: float
    delivery_us: float
    write_us: float
    write_kb_us: float
    relay_out_us: float
    relay_kb_us: float
    relay_in_us: float

    shared_us: float
    """A message through a shared queue at the root: entered, delivered, acknowledged, without the ways in and out."""
    replicate_us: float
    """A message and its acknowledgement in a log entry: at the root for each backup, and at the backup."""
    persist_us: float
    """A persistent message at a broker that writes it to its disk."""

    open_us: float
    """A connection that opens and is redirected."""
    attach_us: float
    """Attaching a subscriber: connection, channel, private queue, binding, consumer."""
    attach_per_s: float
    """How many attach at one broker in a second."""
    meta_binding_us: float
    """A meta-binding, at the broker that is told of it."""
    idle_us_per_s: float
    """A connection that does nothing, in a second."""

    broker_bytes: int
    connection_bytes: int
    """A subscriber: connection, channel, private queue, binding, consumer."""
    topic_bytes: int
    """A topic for which another broker has a meta-binding."""

    election_ms: float
    """The median time from the end of a root to the next one, if the end is noticed at once."""
    election_worst_ms: float
    detect_ms: float
    """The time until a silent broker counts as offline."""
    stack_us: float
    """The time of a message from client to client besides the broker's CPU: twice through the kernel, two wake-ups."""

    wait_us_per_ms: float = 0.0
    """The extra cost of a turn for each millisecond that the broker was idle before it, because caches are cold."""

    # Costs by the batch: small under load, and most of the cost if messages come one by one.
    link_us: float = 0.0
    """A turn that has copies for another broker: giving them to the link, for each such broker, however many copies."""
    persist_batch_us: float = 0.0
    """A batch that is written to a disk. A message alone makes two: when it comes, and when it is acknowledged."""
    replicate_batch_us: float = 0.0
    """A batch in a log entry: at the root for each backup, and at the backup. A message alone makes two of them."""
    member_us_per_s: float = 0.0
    """A broker of a cluster with nothing to do, in a second: timers, and statuses of its own."""
    peer_us_per_s: float = 0.0
    """The same for each other broker, whose statuses come."""

    # Costs in company: while other brokers work on the same cores, as in a cluster on one machine. 0: as alone.
    company_turn_us: float = 0.0
    company_wait_us_per_ms: float = 0.0
    company_write_us: float = 0.0
    company_link_us: float = 0.0
    company_stack_us: float = 0.0
    company_hop_us: float = 0.0
    """The time of a message from one broker to the next besides the CPU of both."""

    @property
    def is_of_company(self) -> bool:
        """Whether costs in company were measured."""
        return self.company_turn_us > 0

    @property
    def hop_us(self) -> float:
        """The time from broker to broker on one machine. If it was not measured, it is half of that between clients."""
        return self.company_hop_us if self.is_of_company else self.stack_us / 2

    def in_company(self) -> Calibration:
        """The costs of a broker that has other brokers beside it."""
        if not self.is_of_company:
            return self
        return msgspec.structs.replace(
            self,
            turn_us=self.company_turn_us,
            wait_us_per_ms=self.company_wait_us_per_ms,
            write_us=self.company_write_us,
            link_us=self.company_link_us,
            stack_us=self.company_stack_us,
        )


@cache
def shipped() -> Calibration:
    """The calibration file that comes with openclust."""
    return msgspec.json.decode(resources.files("topology.simulate").joinpath(SHIPPED).read_bytes(), type=Calibration)


def read_calibration(path: Path) -> Calibration:
    """A calibration file that `openclust bench --calibrate` has written."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; `openclust bench --calibrate {path}` writes one") from None
    except msgspec.DecodeError as error:
        text = f"{path} is no calibration: {error}; `openclust bench --calibrate {path}` writes one"
        raise ConfigError(text) from None
    wrong = [
        f"{path}: {name} is {value}, and must not be negative"
        for name, value in msgspec.structs.asdict(found).items()
        if isinstance(value, (int, float)) and value < 0
    ]
    if wrong:
        raise ConfigError(*wrong)
    return found
