"""Which brokers a command talks to, and the password: from a file, the environment or a prompt, never from an argument.

The arguments of a process can be read by every user of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import click

from openclust.cli.access.context_file import ClusterContext, ContextFile, contexts_path, load_contexts
from openclust.cli.http_client import ApiUrl, HttpClient, parse_api_url
from openclust.cli.term import has_terminal

URL_DEFAULT = "http://guest:guest@127.0.0.1:15672"
PASSWORD_VARIABLE = "OPENCLUST_PASSWORD"
PASSWORD_BYTES_MAX = 1_024


def client_for(
    urls: Sequence[str],
    context: str | None,
    password_file: str | None,
    ca_file: str | None,
    wait_s: float | None = None,
    environ: Mapping[str, str] = os.environ,
) -> HttpClient:
    """A client of the cluster that is meant: by `urls`, the context, the context in use, or on this machine."""
    if urls and context is not None:
        raise click.UsageError("--url and --context exclude each other")
    if urls:
        refuse_passwords(urls)
        chosen = ClusterContext(urls=list(urls))
    else:
        chosen = _context(load_contexts(contexts_path(environ)), context)
    found = [parse_api_url(each) for each in chosen.urls]
    password = password_of(found, password_file, chosen.password_file, environ)
    return HttpClient(chosen.urls, wait_s, password=password, ca_file=ca_file or chosen.ca_file)


def refuse_passwords(urls: Sequence[str]) -> None:
    """A usage error where an argument holds a password that is not the well-known one of guest."""
    for each in map(parse_api_url, urls):
        if each.password and (each.user, each.password) != ("guest", "guest"):
            raise click.UsageError(
                "the URL holds a password, and everybody on this machine can read the arguments of a process: leave it "
                f"out, and give it by --password-file, {PASSWORD_VARIABLE} or at the prompt"
            )


def password_of(
    urls: Sequence[ApiUrl], option: str | None, of_context: str | None, environ: Mapping[str, str]
) -> str | None:
    """The password for all of `urls`; None where each holds its own."""
    if option is not None:
        return _read(option)
    if all(each.password is not None for each in urls):
        return None
    if of_context is not None:
        return _read(os.path.expanduser(of_context))
    if (given := environ.get(PASSWORD_VARIABLE)) is not None:
        return given
    users = sorted({each.user for each in urls if each.password is None and each.user not in (None, "guest")} - {None})
    if not users:
        return None
    if not has_terminal():
        raise click.UsageError(
            f"no password for {users[0]}, and no terminal to ask: give it by --password-file or {PASSWORD_VARIABLE}"
        )
    answer: str = click.prompt(f"Password for {users[0]}", hide_input=True, err=True)
    return answer


def _context(file: ContextFile, name: str | None) -> ClusterContext:
    wanted = name if name is not None else file.current
    if not wanted:
        return ClusterContext(urls=[URL_DEFAULT])
    found = file.contexts.get(wanted)
    if found is None:
        known = f"there are {', '.join(sorted(file.contexts))}" if file.contexts else "there are none"
        raise click.UsageError(f"no context {wanted!r}: {known} (openclust context add makes one)")
    if not found.urls:
        raise click.UsageError(f"the context {wanted!r} has no URLs")
    return found


def _read(path: str) -> str:
    """The first line of the file."""
    with open(path, "rb") as opened:
        data = opened.readline(PASSWORD_BYTES_MAX + 3).rstrip(b"\r\n")
    if not data:
        raise click.ClickException(f"{path}: there is no password in its first line")
    if len(data) > PASSWORD_BYTES_MAX:
        raise click.ClickException(f"{path}: a password has at most {PASSWORD_BYTES_MAX} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.ClickException(f"{path}: the password is not UTF-8 text") from None
