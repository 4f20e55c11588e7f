"""`openclust users`: who may log in, in the users file. A running broker sees a change within a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from openclust.broker.model.access import Permission, User, UserType
from openclust.cli.term import has_terminal, show_json, show_table
from openclust.shell.config.keys import did_you_mean
from openclust.shell.config.load import load
from openclust.shell.users.passwords import hash_password
from openclust.shell.users.users_file import editing, load_users, name_problem, pattern_problems

PASSWORD_BYTES_MAX = 1_024  # a login must fit a frame of 4,096 bytes

F = TypeVar("F", bound=Callable[..., Any])


def file_options(command: F) -> F:
    """The options --file and --config, which choose the users file."""
    command = click.option("--config", metavar="FILE", help="Configuration whose auth.users_file is meant.")(command)
    return click.option("--file", metavar="FILE", help="The users file.")(command)


def pattern_options(command: F) -> F:
    """The three patterns of a permission."""
    for action, done in (("read", "read from"), ("write", "written to"), ("configure", "configured")):
        about = f"Regular expression over the names of what may be {done}."
        command = click.option(f"--{action}", metavar="REGEX", help=about)(command)
    return command


@click.group()
def users() -> None:
    """Add, list, change and remove users of a users file.

    The file is the one given with --file, or auth.users_file of --config, OPENCLUST_CONFIG or
    OPENCLUST_AUTH_USERS_FILE.
    """


@users.command()
@click.argument("name")
@file_options
@click.option(
    "--type", "type_", type=click.Choice(["normal", "console", "cluster"]), default="normal", show_default=True
)
@click.option("--tag", "tags", multiple=True, help="A tag such as administrator; repeatable.")
@click.option("--vhost", default="/", show_default=True, help="Virtual host the permissions are for.")
@pattern_options
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of standard input.")
@click.option("--no-password", is_flag=True, help="The user may only come with a client certificate.")
def add(
    name: str,
    file: str | None,
    config: str | None,
    type_: UserType,
    tags: tuple[str, ...],
    vhost: str,
    configure: str | None,
    write: str | None,
    read: str | None,
    password_stdin: bool,
    no_password: bool,
) -> None:
    """Add a user; without patterns it may do everything on the virtual host."""
    path = users_path(file, config)
    if problem := name_problem(name):
        raise click.UsageError(problem)
    if password_stdin and no_password:
        raise click.UsageError("--password-stdin and --no-password exclude each other")
    everything = Permission(configure=".*", write=".*", read=".*")
    permission = _permission(everything, configure, write, read)
    if os.path.exists(path) and name in load_users(path):  # checked before the password is asked for
        raise click.ClickException(_already(name, path))
    password_hash = "" if no_password else hash_password(_new_password(name, password_stdin))
    with editing(path, create=True) as all_users:
        if name in all_users:
            raise click.ClickException(_already(name, path))
        all_users[name] = User(
            name=name, password_hash=password_hash, type=type_, tags=tags, permissions={vhost: permission}
        )
    click.echo(f"Added {name} to {path}.")


@users.command("list")
@file_options
@click.option("--json", "as_json", is_flag=True, help="JSON for programs.")
def list_(file: str | None, config: str | None, as_json: bool) -> None:
    """List users and their permissions, never their hashes."""
    all_users = load_users(users_path(file, config))
    found = [all_users[name] for name in sorted(all_users)]
    if as_json:
        show_json([_as_json(user) for user in found])
        return
    rows = []
    for user in found:
        login = "password" if user.password_hash else "certificate"
        who = [user.name, user.type, ",".join(user.tags), login]
        entries = [[vhost, p.configure, p.write, p.read] for vhost, p in sorted(user.permissions.items())]
        rows += [who + entry for entry in entries or [["-"] * 4]]
    show_table(["name", "type", "tags", "login", "vhost", "configure", "write", "read"], rows)


@users.command()
@click.argument("name")
@file_options
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of standard input.")
def passwd(name: str, file: str | None, config: str | None, password_stdin: bool) -> None:
    """Give a user a new password."""
    path = users_path(file, config)
    _find(load_users(path), name, path)
    password_hash = hash_password(_new_password(name, password_stdin))
    with editing(path) as all_users:
        _find(all_users, name, path).password_hash = password_hash
    click.echo(f"Changed the password of {name}.")


@users.command()
@click.argument("name")
@file_options
def remove(name: str, file: str | None, config: str | None) -> None:
    """Remove a user and its permissions."""
    path = users_path(file, config)
    with editing(path) as all_users:
        _find(all_users, name, path)
        del all_users[name]
    click.echo(f"Removed {name} from {path}.")


@users.command()
@click.argument("name")
@file_options
@click.option("--vhost", default="/", show_default=True, help="Virtual host the permissions are for.")
@pattern_options
@click.option("--none", "nothing", is_flag=True, help="Take all permissions on the virtual host away.")
def permit(
    name: str,
    file: str | None,
    config: str | None,
    vhost: str,
    configure: str | None,
    write: str | None,
    read: str | None,
    nothing: bool,
) -> None:
    """Set a user's permissions on a virtual host; a pattern not given stays, or grants nothing where none was."""
    path = users_path(file, config)
    if nothing == any(pattern is not None for pattern in (configure, write, read)):
        raise click.UsageError("give --configure, --write, --read or some of them, or else --none")
    with editing(path) as all_users:
        permissions = _find(all_users, name, path).permissions
        if nothing and vhost not in permissions:
            raise click.ClickException(f"{name} has no permissions on virtual host {vhost}")
        if nothing:
            del permissions[vhost]
        else:
            permissions[vhost] = _permission(permissions.get(vhost, Permission()), configure, write, read)
    click.echo(f"Changed the permissions of {name} on {vhost}.")


@users.command("hash")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of standard input.")
def hash_(password_stdin: bool) -> None:
    """Print the hash of a password, for a users file that something else writes."""
    click.echo(hash_password(_new_password("the user", password_stdin)))


def users_path(file: str | None, config: str | None) -> str:
    """The path of the chosen users file. The file may not exist yet."""
    if file is not None:
        return file
    path = config or os.environ.get("OPENCLUST_CONFIG") or None
    loaded = load(path, environ=os.environ, cluster_key_required=False, files_required=False)
    found = loaded.config.auth.users_file
    if found is None:
        where = f"{path} has no auth.users_file" if path else "no --file FILE, --config FILE or OPENCLUST_CONFIG"
        raise click.UsageError(f"which users file? {where}")
    return found


def _new_password(name: str, from_stdin: bool) -> str:
    if from_stdin:
        data = sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 3).rstrip(b"\r\n")
        try:
            password = data.decode()
        except UnicodeDecodeError:
            raise click.ClickException("the password on standard input is not UTF-8 text") from None
    elif not has_terminal():
        raise click.UsageError("there is no terminal to ask for the password; use --password-stdin")
    else:
        password = click.prompt(f"Password for {name}", hide_input=True, confirmation_prompt="Once more", err=True)
    if not password:
        raise click.ClickException("an empty password is not allowed (--no-password: certificates only)")
    if len(password.encode(errors="replace")) > PASSWORD_BYTES_MAX:
        raise click.ClickException(f"a password has at most {PASSWORD_BYTES_MAX} bytes")
    return password


def _permission(base: Permission, configure: str | None, write: str | None, read: str | None) -> Permission:
    patterns = {"configure": configure, "write": write, "read": read}
    new = {action: pattern for action, pattern in patterns.items() if pattern is not None}
    if problems := pattern_problems(new):
        raise click.UsageError("; ".join(problems))
    return Permission(**{action: new.get(action, getattr(base, action)) for action in patterns})


def _find(all_users: dict[str, User], name: str, path: str) -> User:
    user = all_users.get(name)
    if user is None:
        raise click.ClickException(f"{path} has no user {name!r}{did_you_mean(name, all_users)}")
    return user


def _already(name: str, path: str) -> str:
    return f"{path} has a user {name!r} already; openclust users passwd or permit changes it"


def _as_json(user: User) -> dict[str, Any]:
    permissions = {
        vhost: {"configure": p.configure, "write": p.write, "read": p.read}
        for vhost, p in sorted(user.permissions.items())
    }
    login = "password" if user.password_hash else "certificate"
    return {"name": user.name, "type": user.type, "tags": list(user.tags), "login": login, "permissions": permissions}
