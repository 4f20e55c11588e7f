"""The Celery application of celery_scene.py: with the settings that docs/celery.md gives, or with none of them.

From the environment: CELERY_SCENE_URLS with semicolons between, CELERY_SCENE_SETTINGS: `classic`, `quorum` or `none`,
and CELERY_SCENE_NOTES, a file to which tasks write when they ran.
"""
# Celery has no types.
# mypy: disable-error-code="untyped-decorator,no-untyped-call"

from __future__ import annotations

import os
import re
import time
from typing import Any

from celery import Celery, Task

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "celery.md"


SETTINGS = "celeryconfig: the settings"
FOR_QUORUM = "for quorum queues"
"""The first lines of the page's blocks of settings, without the sign of a comment."""


def settings_of_the_page(*blocks: str) -> dict[str, Any]:
    """What these blocks of the page set, together."""
    settings: dict[str, Any] = {}
    for block in blocks:
        found = re.search(rf"```python\n(# {block}\n.*?)```", PAGE.read_text(), re.DOTALL)
        assert found, f"{PAGE} has no block that begins with '# {block}'"
        exec(found[1], settings)
    return {name: value for name, value in settings.items() if not name.startswith("_")}


def make_app(urls: list[str], settings: str) -> Celery:
    app = Celery("celery_cluster_app")
    if settings == "none":
        app.conf.update(broker_url=urls[0], result_backend="rpc://")
    else:
        blocks = (SETTINGS, FOR_QUORUM) if settings == "quorum" else (SETTINGS,)
        app.conf.update({**settings_of_the_page(*blocks), "broker_url": urls})
    app.conf.task_default_queue = f"celery-{settings}"
    return app


app = make_app(
    os.environ.get("CELERY_SCENE_URLS", "memory://").split(";"), os.environ.get("CELERY_SCENE_SETTINGS", "none")
)


def write_down(name: str, worker: str) -> None:
    with open(os.environ["CELERY_SCENE_NOTES"], "a") as file:
        file.write(f"{name} {time.time()} {worker}\n")


@app.task(name="note", bind=True)
def note(self: Task, name: str) -> str:
    """Write down that it runs."""
    write_down(name, self.request.hostname)
    return name


@app.task(name="note_twice", bind=True)
def note_twice(self: Task, name: str, seconds: float) -> str:
    """Write down that it begins, and so many seconds later that it ends."""
    write_down(f"{name}-begins", self.request.hostname)
    time.sleep(seconds)
    write_down(f"{name}-ends", self.request.hostname)
    return name
