"""The text at the terminal when a broker is ready: its address, and a command to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from openclust.shell.config.addresses import http_url

if TYPE_CHECKING:
    from openclust.shell.server import Server

_TEXT = """
openclust serves AMQP 0-9-1 at

    {url}

Try it from another terminal, in `{python} -m asyncio`:

    import aio_pika; channel = await (await aio_pika.connect("{url}")).channel()
    await channel.declare_queue("hello"); await channel.default_exchange.publish(aio_pika.Message(b"hi"), "hello")
    print((await (await channel.get_queue("hello")).get(no_ack=True)).body)

{api}Ctrl-C ends the broker.
"""


class WelcomeService:
    """A service that prints the welcome when it starts."""

    def __init__(self, python: str) -> None:
        self._python = python

    async def start(self, server: Server) -> None:
        click.echo(welcome(server, self._python))

    async def stop(self) -> None:
        """Does nothing: the welcome is printed."""


def welcome(server: Server, python: str) -> str:
    """The text for a running broker. It shows a password only for `guest`, whose password everybody knows."""
    config = server.config
    host, port = server.listeners[0].address
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    login = "guest:guest" if config.auth.users_file is None else "USER:PASSWORD"
    url = f"amqp://{login}@{f'[{host}]' if ':' in host else host}:{port}/"
    api = f"The HTTP API is at {http_url(config.http)}/api/overview. " if config.http.enabled else ""
    return _TEXT.format(url=url, python=python, api=api)
