"""The shape of a JSON answer: which fields it has, and of which types their values are."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

Shape: TypeAlias = dict[str, list[str]]
"""Types by path, as `items[].message_stats.publish`."""

OPEN = frozenset(
    {
        "arguments",
        "capabilities",
        "client_properties",
        "cluster_state",
        "definition",
        "effective_policy_definition",
        "headers",
        "value",
    }
)
"""Objects whose fields are the user's own."""

NOT_HERE = {
    "garbage_collection": "the garbage collector of one Erlang process: here no connection, channel or queue is one",
    "reductions": "work that Erlang's scheduler has given to one of its processes",
    "pending_raft_commands": "commands of a channel to the Raft groups of queues: here one log serves all queues",
    "backing_queue_status": "how RabbitMQ's queues divide their messages inside",
    "cowboy_opts": "options of the Erlang library that serves RabbitMQ's API",
    "exit_on_close": "an option of Erlang's sockets",
    "linger": "an option that RabbitMQ sets on its sockets; here they have the system's default",
    "config_files": "a broker may be configured by flags and variables alone, and does not keep the names of files",
    "gc_bytes_reclaimed": "Python's garbage collector does not count bytes",
    **dict.fromkeys(
        ("io_read", "io_write", "io_sync", "io_seek", "io_reopen"),
        "calls to RabbitMQ's own files of messages: SQLite reads and writes here, and does not count",
    ),
    **dict.fromkeys(
        ("msg_store_read_count", "msg_store_write_count", "queue_index_read_count", "queue_index_write_count"),
        "how RabbitMQ divides its files into a store of messages and an index of queues",
    ),
    **dict.fromkeys(
        ("mnesia_disk_tx_count", "mnesia_ram_tx_count", "memory.mnesia"), "Erlang's database: here it is the log"
    ),
    "ra_open_file_metrics": "files of RabbitMQ's Raft library",
    **dict.fromkeys(
        (
            *("memory.allocated_unused", "memory.reserved_unallocated", "memory.total.allocated"),
            *("memory.total.erlang", "memory.atom", "memory.binary", "memory.code", "memory.other_proc"),
            *("memory.other_ets", "memory.quorum_ets", "memory.plugins", "memory.metrics", "memory.mgmt_db"),
        ),
        "kinds of memory of Erlang's machine: a Python process has one heap",
    ),
    **dict.fromkeys(
        (
            *("memory.connection_channels", "memory.connection_other", "memory.connection_readers"),
            *("memory.msg_index", "memory.queue_slave_procs", "memory.quorum_queue_procs"),
            *("memory.quorum_queue_dlx_procs", "memory.stream_queue_procs"),
            *("memory.stream_queue_coordinator_procs", "memory.stream_queue_replica_reader_procs"),
        ),
        "Erlang's processes by their work: here messages and outboxes are counted, and the rest is one number",
    ),
    "user_who_performed_action": "who has declared an exchange or a queue is not kept with it",
    "idle_since": "it is there only while a queue is idle, in RabbitMQ as well",
}
"""Fields that an answer may lack, each with the reason: there is nothing here that they could tell.

A name stands for its `_details` too, one with a dot for a field of that object only, and one of an `io_` operation for
its count, bytes and time.
"""


def shape_of(value: Any) -> Shape:
    found: dict[str, set[str]] = {}
    _gather(value, "", found)
    return {path: sorted(types) for path, types in sorted(found.items())}


def _gather(value: Any, path: str, found: dict[str, set[str]]) -> None:
    found.setdefault(path or ".", set()).add(_type_of(value))
    if isinstance(value, list):
        for each in value:
            _gather(each, f"{path}[]", found)
    elif isinstance(value, dict) and path.rpartition(".")[2] not in OPEN:
        for name, each in value.items():
            _gather(each, f"{path}.{name}" if path else name, found)


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def differences(wanted: Shape, found: Shape) -> list[str]:
    """What an answer lacks, or has in another type. Fields of our own are no difference."""
    problems = []
    for path, types in wanted.items():
        others = sorted({*found.get(path, [])} - {*types} - {"null"})
        if path not in found:
            if _is_not_here(path):
                continue
            parent = path.rpartition(".")[0]
            if not parent or parent in found:
                problems.append(f"{path} is missing ({' or '.join(types)})")
        elif others:
            problems.append(f"{path} is {' or '.join(others)}, not {' or '.join(types)}")
    return problems


def _is_not_here(path: str) -> bool:
    names = f".{path.replace('[]', '').replace('_details', '')}."
    names = re.sub(r"\.(io_[a-z]+)_(?:count|bytes|avg_time)\.", r".\1.", names)
    return any(f".{name}." in names for name in NOT_HERE)
