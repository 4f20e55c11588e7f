"""`openclust start`: put the configuration together, check it, and run the broker."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from openclust.shell.config.addresses import address_keys, http_url, peer_listen
from openclust.shell.config.load import Given, Loaded, load, parse_setting
from openclust.shell.config.schema import Config, ConfigError
from openclust.shell.host.event_log import escape

if TYPE_CHECKING:
    from openclust.broker.model.access import User
    from openclust.shell.server import Service
    from openclust.shell.tls.certificates import OurCertificate

log = logging.getLogger("openclust.config")

# the key of each flag; all other keys are set with --set
FLAGS = {
    "cluster_key": ("--cluster-key", "cluster_key"),
    "name": ("--name", "name"),
    "host": ("--host", "listen.host"),
    "port": ("--port", "listen.port"),
    "tls_host": ("--tls-host", "tls.host"),
    "tls_port": ("--tls-port", "tls.port"),
    "tls_cert": ("--tls-cert", "tls.cert"),
    "tls_key": ("--tls-key", "tls.key"),
    "tls_ca": ("--tls-ca", "tls.ca"),
    "tls_verify": ("--tls-verify", "tls.verify"),
    "http_host": ("--http-host", "http.host"),
    "http_port": ("--http-port", "http.port"),
    "users_file": ("--users-file", "auth.users_file"),
    "definitions_file": ("--definitions", "definitions.file"),
    "join": ("--join", "cluster.join"),
    "data_dir": ("--data-dir", "cluster.data_dir"),
    "log_level": ("--log-level", "log.level"),
    "log_format": ("--log-format", "log.format"),
    "trace_file": ("--trace", "trace.file"),
}


@click.command()
@click.option("--cluster-key", metavar="KEY", help="The name of the cluster this broker belongs to (needed).")
@click.option("--config", "path", metavar="FILE", envvar="OPENCLUST_CONFIG", help="TOML file; flags override it.")
@click.option("--name", metavar="NAME", help="This broker's name [hostname-port].")
@click.option("--host", metavar="HOST", help="Address to serve AMQP on [127.0.0.1].")
@click.option("--port", metavar="PORT", help="Port to serve AMQP on [5672].")
@click.option("--tls-host", metavar="HOST", help="Address to serve AMQPS on [that of --host].")
@click.option("--tls-port", metavar="PORT", help="Port to serve AMQPS on [off].")
@click.option("--tls-cert", metavar="FILE", help="PEM certificate chain of the broker.")
@click.option("--tls-key", metavar="FILE", help="PEM key of the certificate.")
@click.option("--tls-ca", metavar="FILE", help="PEM certificates that sign the clients' certificates.")
@click.option("--tls-verify", metavar="HOW", help="Client certificates: none, optional or required [none].")
@click.option("--http-host", metavar="HOST", help="Address of the HTTP API [127.0.0.1].")
@click.option("--http-port", metavar="PORT", help="Port of the HTTP API [15672].")
@click.option("--no-http", is_flag=True, help="No HTTP API.")
@click.option("--users-file", metavar="FILE", help="Users and permissions (openclust users) [only guest].")
@click.option("--definitions", "definitions_file", metavar="FILE", help="RabbitMQ definitions to import at start.")
@click.option("--data-dir", metavar="DIR", help="Keep durable queues and all else that lasts there [in memory only].")
@click.option("--join", metavar="HOST:PORT,...", help="Be a secondary of the primaries whose peers meet there.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error [info].")
@click.option("--log-format", metavar="FORMAT", help="text or json [text].")
@click.option("--trace", "trace_file", metavar="FILE", help="Write there what becomes of one in 1000 messages [off].")
@click.option("--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="Set any other key; repeatable.")
@click.option("--welcome", is_flag=True, help="Print how to try the broker, also where stdout is no terminal.")
@click.option("--check-config", is_flag=True, help="Check the configuration and every file it names, then exit.")
def start(
    path: str | None, no_http: bool, settings: tuple[str, ...], check_config: bool, welcome: bool, **flags: Any
) -> int:
    """Run a broker until SIGTERM or Ctrl-C.

    Every key of docs/configuration.md can be set in the file, as OPENCLUST_SECTION_KEY in the environment, or with a
    flag; flags win over the environment, the environment over the file.
    """
    from openclust.shell.host.event_log import configure

    loaded = load(path or None, environ=os.environ, flags=_given(flags, no_http, settings))
    config = loaded.config
    configure(config.log.level, config.log.format)
    check_contents(loaded, is_check=check_config)
    if check_config:
        for line in (*summary(config, path), *(f"  not used     {each}" for each in loaded.unused)):
            click.echo(line)
        return 0
    for each in loaded.unused:
        log.warning("not used: %s", each)

    serve, services = _loaded(config, welcome)
    try:
        exit_code: int = serve(config, services)
        return exit_code
    except OSError as error:
        raise ConfigError(listen_problem(error, config)) from None


def _loaded(config: Config, welcome: bool) -> tuple[Callable[[Config, Sequence[Service]], int], list[Service]]:
    """Imports the server and its services. This is most of the work of a start, and gives way to running brokers."""
    from openclust.shell.host.gc_pause import no_collector
    from openclust.shell.host.start_throttle import giving_way

    with no_collector(), giving_way():
        from openclust.shell.server import serve

        if config.cluster.primaries or config.cluster.join:
            # The first link needs this module at once, and its import would stop the event loop.
            importlib.import_module("openclust.shell.cluster.links")
        return serve, _services(config, welcome)


def _services(config: Config, welcome: bool) -> list[Service]:
    """The services beside the broker. Without the HTTP API its library is not imported, and takes no memory."""
    from openclust.manage.management import Management

    management = Management()
    services: list[Service] = [management]
    if config.http.enabled:
        from openclust.manage.api.http_api import HttpApi

        services.append(HttpApi(config.http, management))
    if config.metrics.port is not None:
        from openclust.manage.api.metrics_listener import MetricsListener

        services.append(MetricsListener(config.metrics, management.http))
    if welcome or sys.stdout.isatty():
        from openclust.cli.broker.welcome import WelcomeService

        services.append(WelcomeService(os.path.relpath(sys.executable) if sys.prefix != sys.base_prefix else "python3"))
    return services


def check_contents(loaded: Loaded, *, is_check: bool = True) -> None:
    """Reads every file that the configuration names. Raises ConfigError with the mistakes in all of them.

    A broker that starts skips this: it checks its definitions as it imports them, and logs bad certificates, because
    connections without TLS do not need them.
    """
    config = loaded.config
    problems: list[str] = []
    if config.tls.port is not None:
        from openclust.shell.tls.server_context import server_context

        try:
            server_context(config.tls)
        except ConfigError as error:
            problems += error.problems
    if config.http.enabled and config.http.tls_cert is not None:
        from openclust.shell.tls.certificate_files import HTTP_KEYS, tls_of_http
        from openclust.shell.tls.server_context import server_context

        try:
            server_context(tls_of_http(config.http), HTTP_KEYS)
        except ConfigError as error:
            problems += error.problems
    if config.cluster.peer_cert is not None:
        from openclust.shell.tls.peer_context import peer_contexts

        try:
            peer_contexts(config.cluster)
        except ConfigError as error:
            problems += error.problems
    if is_check and not problems:
        now_s = int(time.time())
        problems += [told for each in _certificates(config) if (told := each.problem(now_s)) is not None]
    users: dict[str, User] = {}
    if config.auth.users_file is not None:
        from openclust.shell.users.users_file import load_users

        try:
            users = load_users(config.auth.users_file)
        except ConfigError as error:
            problems += error.problems
    if config.definitions.file is not None:
        problems += _definitions_problems(config.definitions.file, loaded, users.values(), is_check)
    if problems:
        raise ConfigError(*problems)


def _certificates(config: Config) -> list[OurCertificate]:
    """The certificates that clients and other brokers need to connect with TLS."""
    if config.tls.port is None and config.http.tls_cert is None and config.cluster.peer_cert is None:
        return []
    from openclust.shell.tls.certificate_files import client_certificates, http_certificates, peer_certificates

    return client_certificates(config.tls) + http_certificates(config.http) + peer_certificates(config.cluster)


def summary(config: Config, path: str | None) -> list[str]:
    """A few lines on the broker that this configuration would start."""
    host, tls, http, auth = config.listen.host, config.tls, config.http, config.auth
    tls_address = "off" if tls.port is None else f"{_address(tls.host or host, tls.port)} from TLS {tls.min_version}"
    verify = "" if tls.verify == "none" else f", client certificates {tls.verify}"
    return [
        f"The configuration is right{f' ({path})' if path else ''}.",
        f"  broker       {config.name} of cluster {config.cluster_key}",
        *_in_cluster(config),
        f"  AMQP         {_address(host, config.listen.port)}",
        f"  AMQPS        {tls_address}{verify}",
        *_ends_of_certificates(config),
        f"  HTTP API     {http_url(http) if http.enabled else 'off'}",
        *_metrics(config),
        f"  users        {auth.users_file or 'guest only'} ({', '.join(auth.mechanisms)})",
        f"  definitions  {config.definitions.file or 'none'}",
        f"  data         {config.cluster.data_dir or 'in memory only'}",
    ]


def _metrics(config: Config) -> list[str]:
    host, port = config.metrics.host, config.metrics.port
    return [] if port is None else [f"  metrics      http://{_address(host, port)}/metrics"]


def _ends_of_certificates(config: Config) -> list[str]:
    from openclust.shell.tls.certificates import stamp, time_left

    now_s = int(time.time())
    return [
        f"  certificate  {each.key} {each.certificate.subject} until {stamp(each.certificate.expires_s)}"
        f" (in {time_left(each.certificate.expires_s - now_s)})"
        for each in _certificates(config)
    ]


def _in_cluster(config: Config) -> list[str]:
    peers_at = peer_listen(config)
    if peers_at is None:
        return []
    place = f"secondary of {', '.join(config.cluster.join)}" if config.cluster.join else "primary"
    return [f"  cluster      {place}, accepts peers on {_address(*peers_at)}"]


def listen_problem(error: OSError, config: Config) -> str:
    """The reason why a listener could not be opened, and the way out."""
    text = error.strerror or str(error)
    # asyncio names the address in the text of the error, the plain listener in its file name
    match = re.search(r"bind on address \('([^']*)', (\d+)", text) or re.fullmatch(
        r"\[?(.*?)\]?:(\d+)", str(error.filename or "")
    )
    host, port = (match[1], int(match[2])) if match else (config.listen.host, config.listen.port)
    key = address_keys(config, host, port) or "--port, --tls-port or --http-port"
    other = f"choose another with {key}" if key.startswith("--") else f"write another into {key}"
    where = _address(host, port)
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {where}: another process has this port; stop it, or {other}"
    if error.errno == errno.EACCES:
        higher = other.replace("another", "a higher one")
        return f"cannot listen on {where}: ports below 1024 need a privilege; {higher}"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen on {where}: this machine has no such address; choose another, or 0.0.0.0 for all"
    if isinstance(error, socket.gaierror):
        return f"cannot listen on {config.listen.host!r}: {text}; give an address of this machine with --host"
    return f"cannot run the broker: {text}{f': {error.filename}' if error.filename else ''}"


def _given(flags: dict[str, Any], no_http: bool, settings: tuple[str, ...]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for setting in settings:
        key, one = parse_setting(setting)
        given[key] = one
    by_flag = {
        key: Given(flags[parameter], flag, is_text=True)
        for parameter, (flag, key) in FLAGS.items()
        if flags[parameter] is not None
    }
    if no_http:
        by_flag["http.enabled"] = Given(False, "--no-http")
    for key in by_flag.keys() & given.keys():
        raise ConfigError(f"{key} is given twice, with {by_flag[key].place} and with --set")
    return given | by_flag


def _definitions_problems(path: str, loaded: Loaded, users: Iterable[User], whole: bool) -> list[str]:
    from openclust.shell.definitions_file import check_definitions, load_definitions_file

    try:
        document = load_definitions_file(path)
    except ConfigError as error:
        return [f"{loaded.told('definitions.file')}: {problem.removeprefix(f'{path}: ')}" for problem in error.problems]
    problems = check_definitions(document, users, loaded.config.limits).problems if whole else []
    return [f"{path}: {escape(problem)}" for problem in problems]


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"
