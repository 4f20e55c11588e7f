"""Saves users that calls have changed to the users file."""

from __future__ import annotations

from collections.abc import Iterable

from openclust.manage.calls.call import Call, Refused
from openclust.shell.config.schema import ConfigError


async def save_users(call: Call, names: Iterable[str]) -> None:
    try:
        await call.server.logins.save(call.broker, names)
    except ConfigError as error:
        reason = f"changed in this broker until it restarts, but not in the users file: {error.problems[0]}"
        raise Refused(500, "not_saved", reason) from None
