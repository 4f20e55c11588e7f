"""The names and versions that tools ask for: our own, and those of RabbitMQ that stand for what a tool may expect."""

from __future__ import annotations

import platform
import re
from functools import cache

from openclust import __version__
from openclust.broker.routing.exchange import TYPES
from openclust.manage.gather.selection import Row

RABBITMQ_VERSION = "3.10.8"
"""The version of RabbitMQ that the calls are held against: tools choose by it what they may ask for."""

ERLANG_VERSION = "25.2.3"
"""The version that RabbitMQ 3.10.8 runs on in Debian. Tools take a number out of it; nothing here is Erlang."""

RATES_MODE = "basic"
"""RabbitMQ's word: rates of objects are counted, but not of each channel with each queue and each exchange."""

HISTORY_S = 600


def product() -> Row:
    """Which program answers, and for which it can be taken."""
    return {
        "product_name": "openclust",
        "product_version": __version__,
        "openclust_version": __version__,
        "python_version": platform.python_version(),
        "rabbitmq_version": RABBITMQ_VERSION,
        "management_version": RABBITMQ_VERSION,
        "erlang_version": ERLANG_VERSION,
        "erlang_full_version": (
            f"Erlang/OTP {ERLANG_VERSION} is what tools expect: this is openclust {__version__} "
            f"on {platform.python_implementation()} {platform.python_version()}"
        ),
        "release_series_support_status": "supported",
    }


def exchange_types() -> list[Row]:
    return [
        {"name": each, "description": f"AMQP {each} exchange, as per the AMQP specification", "enabled": True}
        for each in TYPES
    ]


@cache
def applications() -> list[Row]:
    """openclust, Python, and the libraries that openclust needs, each with its version."""
    # Not at the top: a broker that starts need not wait for it, and reads the versions in a thread.
    from importlib import metadata

    found = [
        {"name": "openclust", "description": "an AMQP 0-9-1 cluster", "version": __version__},
        {"name": "python", "description": platform.python_implementation(), "version": platform.python_version()},
    ]
    try:
        requirements = metadata.requires("openclust") or []
    except metadata.PackageNotFoundError:  # it runs without being installed
        requirements = []
    for name in sorted({re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0] for each in requirements}):
        try:
            about = metadata.metadata(name)
        except metadata.PackageNotFoundError:  # it belongs to an extra, which is not installed
            continue
        found.append({"name": name, "description": about["Summary"] or "", "version": about["Version"]})
    return found
