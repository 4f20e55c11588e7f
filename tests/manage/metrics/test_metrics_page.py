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
    "connections_opened_total",
    "connections_closed_total",
    "channels_opened_total",
    "channels_closed_total",
    "queues_declared_total",
    "queues_created_total",
    "queues_deleted_total",
    "message_size_bytes",
    *(
        f"global_messages_{each}_total"
        for each in (
            *("received", "received_confirm", "confirmed", "routed", "unroutable_dropped", "unroutable_returned"),
            *("delivered", "delivered_consume_auto_ack", "delivered_consume_manual_ack", "delivered_get_auto_ack"),
            *("delivered_get_manual_ack", "get_empty", "redelivered", "acknowledged", "dead_lettered_expired"),
            *("dead_lettered_maxlen", "dead_lettered_rejected", "dead_lettered_delivery_limit"),
        )
    ),
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


def test_what_boards_for_rabbitmq_ask_for_is_there() -> None:
    assert {f"rabbitmq_{name}" for name in BOARD_10991} <= {each.name for each in ALL}
