"""The page on metrics, and the tables that it is made from."""

from __future__ import annotations

import re

from openclust.manage.metrics.object_metrics import CUT, FAMILIES
from openclust.manage.metrics.openclust_metrics import OPENCLUST_METRICS
from openclust.manage.metrics.rabbitmq_metrics import RABBITMQ_METRICS
from tests.manage.metrics.page import PAGE, with_tables

ALL = (*RABBITMQ_METRICS, *OPENCLUST_METRICS, *(each for family in FAMILIES.values() for each in family), CUT)

BOARD_10991 = (
    "identity_info",
    "build_info",
    "erlang_uptime_seconds",
    "connections",
    "channels",
    "queues",
    "consumers",
    "queue_messages_ready",
    "queue_messages_unacked",
    "queue_messages",
    "global_publishers",
    "global_consumers",
    "resident_memory_limit_bytes",
    "process_resident_memory_bytes",
    "process_open_fds",
    "process_max_fds",
    "disk_space_available_bytes",
    "disk_space_available_limit_bytes",
    "alarms_memory_used_watermark",
    "alarms_free_disk_space_watermark",
    "alarms_file_descriptor_limit",
)


def test_the_page_has_the_tables_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_tables(text), "docs/metrics.md is old: run .venv/bin/python -m tests.manage.metrics.page"


def test_every_metric_has_a_name_of_its_own_as_prometheus_wants_it() -> None:
    names = [each.name for each in ALL]
    assert len(set(names)) == len(names)
    for each in ALL:
        assert re.fullmatch(r"(rabbitmq|openclust|process)_[a-z_]+", each.name)
        assert each.name.endswith("_total") == (each.kind == "counter"), each.name
        assert each.name.endswith("_info") == (each.kind == "info"), each.name
        assert each.help and not each.help.endswith(".") and "|" not in each.help


def test_no_metric_has_a_label_that_comes_and_goes_with_clients() -> None:
    labels = {label for each in ALL for label in each.labels}
    assert not labels & {"channel", "connection", "consumer", "consumer_tag", "user"}


def test_what_the_board_10991_of_rabbitmq_asks_for_is_there() -> None:
    assert {f"rabbitmq_{name}" for name in BOARD_10991} <= {each.name for each in ALL}
