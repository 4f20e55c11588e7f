"""A file of definitions: read, checked, and imported into a broker or cluster that starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from openclust.broker.definitions.import_export import Import, Report, import_definitions
from openclust.broker.model.access import User
from openclust.broker.model.limits import Limits
from openclust.broker.server.broker import Broker
from openclust.shell.config.schema import ConfigError
from openclust.shell.host.atomic_file import not_json
from openclust.shell.host.event_log import escape
from openclust.shell.users.saved_users import save_changed_users, users_now

log = logging.getLogger("openclust.definitions")

FILE_BYTES_MAX = 64 * 1_048_576
LINES_LOGGED_MAX = 20
CHANGES_A_TURN = 500
WAIT_S = 0.05


class DefinitionsError(ConfigError):
    """The definitions cannot be used. Each problem is a line for people."""


def load_definitions_file(path: str) -> dict[str, Any]:
    """The document in the file, or DefinitionsError. Its contents are checked by `import_definitions`."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise DefinitionsError(
            f"{path}: no such definitions file; a running broker writes one with: openclust definitions export {path}"
        ) from None
    except (OSError, ValueError) as error:
        raise DefinitionsError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return parse_definitions(data)
    except ValueError as error:
        raise DefinitionsError(f"{path}: {error}") from None


def parse_definitions(data: bytes) -> dict[str, Any]:
    """The document in JSON text. ValueError has the problem and its place."""
    if len(data) > FILE_BYTES_MAX:
        raise ValueError(f"definitions have at most {FILE_BYTES_MAX} bytes")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(not_json(data, error)) from None
    if not isinstance(document, dict):
        raise ValueError("wanted a JSON object of definitions: lists of queues, exchanges and so on by name")
    return document


def check_definitions(document: dict[str, Any], users: Iterable[User] = (), limits: Limits | None = None) -> Report:
    """The report of an import into a broker that has `guest` and these users, and nothing else. Nothing is changed."""
    broker = Broker(limits or Limits(), random_name=lambda: "check")
    broker.replace_users([User(name="guest", permissions={}), *users])
    return import_definitions(broker, document)


def import_at_start(broker: Broker, path: str, users_file: str | None) -> None:
    """Import the file into a broker that serves nobody yet, or raise ConfigError with all problems.

    Imported users are saved in the users file, if there is one.
    """
    document = load_definitions_file(path)
    before = users_now(broker, broker.users)
    report = import_definitions(broker, document)
    if report.problems:
        raise DefinitionsError(*(escape(f"{path}: {problem}") for problem in report.problems))
    _tell(path, report)
    if users_file is not None:
        now = users_now(broker, broker.users)
        save_changed_users(users_file, {name: user for name, user in now.items() if user != before.get(name)})


async def import_in_cluster(
    broker: Broker, path: str, *, is_in_touch: Callable[[], bool], turn_soon: Callable[[], None]
) -> None:
    """Ask the root for the definitions of the file as soon as there is one. Refused definitions are logged."""
    document = load_definitions_file(path)
    while not is_in_touch():
        await asyncio.sleep(WAIT_S)
    one = Import(broker, document)
    while not one.run(CHANGES_A_TURN) or not one.finished:
        turn_soon()
        await asyncio.sleep(WAIT_S if one.is_backed_up else 0)
    report = one.report()
    for problem in report.problems[:LINES_LOGGED_MAX]:
        log.error("%s: %s", path, escape(problem))
    _tell(path, report)


def _tell(path: str, report: Report) -> None:
    for line in report.ignored[:LINES_LOGGED_MAX]:
        log.warning("%s: ignored: %s", path, line)
    if len(report.ignored) > LINES_LOGGED_MAX:
        log.warning("%s: ignored: %d more", path, len(report.ignored) - LINES_LOGGED_MAX)
    log.info("imported %s: %d changes, %d things were there already", path, report.changed, report.unchanged)
