"""How a cluster places its clients: the settings of one broker, `[redirect]` in its configuration file."""

from __future__ import annotations

from typing import Literal

import msgspec

from openclust.broker.amqp.placement import Fallback

Mode = Literal["balanced", "active-passive", "off"]


class Redirect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which broker clients are sent to. `fallback` is for clients that do not understand connection.redirect.

    `threshold` is in clients per weight, `rebalance_threshold` in percent of a broker's fair share.
    """

    mode: Mode = "balanced"
    fallback: Fallback = "accept"
    threshold: int = 1
    weight: int = 1
    require_key: bool = False
    rebalance: bool = True
    rebalance_threshold: int = 10
    rebalance_per_s: int = 10
    rebalance_dry_run: bool = False
    drain_per_s: int = 100
