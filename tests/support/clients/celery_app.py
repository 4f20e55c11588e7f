"""The Celery application of test_celery.py: its tasks, for the worker process and for the tests alike.

From the environment: CELERY_TEST_BROKER, CELERY_TEST_BACKEND, CELERY_TEST_QUEUE_TYPE, and CELERY_TEST_PREFIX, with
which every name begins.
"""
# Celery has no types.
# mypy: disable-error-code="untyped-decorator,no-untyped-call,attr-defined"

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery, Task
from celery.exceptions import Reject
from kombu import Exchange, Queue

PREFIX = os.environ.get("CELERY_TEST_PREFIX", "celery-test")


def make_app(broker: str, backend: str, queue_type: str, prefix: str) -> Celery:
    app = Celery("celery_app", broker=broker, backend=backend)
    arguments: dict[str, Any] = {"x-queue-type": queue_type} if queue_type == "quorum" else {"x-max-priority": 10}
    app.conf.update(
        task_queues=[Queue(prefix, Exchange(prefix), routing_key=prefix, queue_arguments=arguments)],
        task_default_queue=prefix,
        task_default_exchange=prefix,
        task_default_routing_key=prefix,
        task_default_queue_type=queue_type,
        worker_detect_quorum_queues=True,
        worker_prefetch_multiplier=1,
        task_acks_late=True,
        task_track_started=True,
        worker_send_task_events=True,
        task_send_sent_event=True,
        control_exchange=f"{prefix}.control",
        event_exchange=f"{prefix}.events",
        event_queue_prefix=f"{prefix}.events",
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=5,
        result_expires=60,
    )
    return app


app = make_app(
    os.environ.get("CELERY_TEST_BROKER", "memory://"),
    os.environ.get("CELERY_TEST_BACKEND", "cache+memory://"),
    os.environ.get("CELERY_TEST_QUEUE_TYPE", "classic"),
    PREFIX,
)


@app.task(name="add")
def add(x: int, y: int) -> int:
    return x + y


@app.task(name="total")
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(name="fail")
def fail() -> None:
    raise ValueError("on purpose")


@app.task(name="sleep")
def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


@app.task(name="flaky", bind=True, max_retries=5)
def flaky(self: Task, succeed_at: int) -> int:
    """Fails until its attempt number `succeed_at`."""
    attempt = int(self.request.retries) + 1
    if attempt < succeed_at:
        raise self.retry(countdown=0.1)
    return attempt


@app.task(name="when")
def when() -> float:
    return time.time()


@app.task(name="note")
def note(path: str, line: str) -> None:
    """Append a line to a file: the order in which tasks ran."""
    with open(path, "a") as file:
        file.write(line + "\n")


@app.task(name="reject_once", bind=True)
def reject_once(self: Task) -> bool:
    """Send the message back the first time; the second time say that it was redelivered."""
    if not self.request.delivery_info["redelivered"]:
        raise Reject("try again", requeue=True)
    return True


@app.task(name="size")
def size(data: str) -> int:
    return len(data)
