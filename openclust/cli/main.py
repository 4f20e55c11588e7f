"""The `openclust` command: finds the subcommand, and turns every error into one line and an exit code.

Exit codes: 0 done, 1 the answer is no, 2 bad usage or input, 130 interrupted. A command returns its code (None is 0)
or raises a click exception, a ConfigError or an OSError; it never needs to catch them for their text.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from openclust import __version__
from openclust.cli.exit_codes import DONE, FAILED, INTERRUPTED

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name: (its module, its line in `openclust --help`). A command is imported when it is called.
COMMANDS = {
    "start": ("openclust.cli.broker.start:start", "Run a broker until SIGTERM or Ctrl-C."),
    "up": ("openclust.cli.cluster.up:up", "Run a local cluster of real processes until Ctrl-C."),
    "status": ("openclust.cli.cluster.status:status", "Show the brokers of a cluster, their roles, votes and links."),
    "why-no-root": ("openclust.cli.cluster.why_no_root:why_no_root", "Say who stands in the way of a root, and why."),
    "force-root": (
        "openclust.cli.cluster.force_root:force_root",
        "Make a primary root although too many others are missing.",
    ),
    "step-down": (
        "openclust.cli.cluster.step_down:step_down",
        "Have the root give up its place; the others elect another.",
    ),
    "context": ("openclust.cli.access.context:context", "Name clusters, and choose the one that commands talk to."),
    "drain": ("openclust.cli.cluster.drain:drain", "Empty a broker of its clients, so that it can be stopped."),
    "queues": ("openclust.cli.objects.queues:queues", "List, declare, purge, delete queues; get and move messages."),
    "exchanges": ("openclust.cli.objects.exchanges:exchanges", "List exchanges."),
    "bindings": ("openclust.cli.objects.bindings:bindings", "List bindings."),
    "connections": ("openclust.cli.objects.connections:connections", "List and close connections."),
    "channels": ("openclust.cli.objects.channels:channels", "List channels."),
    "consumers": ("openclust.cli.objects.consumers:consumers", "List consumers."),
    "nodes": ("openclust.cli.objects.nodes:nodes", "List brokers, with their memory, disk and files."),
    "publish": ("openclust.cli.objects.publish:publish", "Publish one message, confirmed."),
    "health": ("openclust.cli.objects.health:health", "Say whether a broker and its cluster are well."),
    "policies": ("openclust.cli.objects.policies:policies", "List, set and clear policies."),
    "vhosts": ("openclust.cli.objects.vhosts:vhosts", "List, add and delete virtual hosts."),
    "limits": ("openclust.cli.objects.limits:limits", "List, set and clear limits of virtual hosts and users."),
    "users": ("openclust.cli.broker.users:users", "Add, list, change and remove users of a users file."),
    "definitions": (
        "openclust.cli.broker.definitions:definitions",
        "Export or import exchanges, queues, bindings, policies.",
    ),
    "store": ("openclust.cli.broker.store:store", "Look at, check or compact the store in a broker's data directory."),
    "lint": ("openclust.cli.topology.lint:lint", "Say what is wrong with cluster files, before it goes wrong."),
    "draw": (
        "openclust.cli.topology.draw:command",
        "Draw a cluster file: who is what, where it stands, findings in red.",
    ),
    "topology": ("openclust.cli.topology.new:topology", "Make a cluster file to begin with."),
    "simulate": ("openclust.cli.simulate.simulate:simulate", "Compute what a layout of brokers does under a workload."),
    "analyze": ("openclust.cli.simulate.analyze:analyze", "Say what really happened, from the traces of brokers."),
    "bench": ("openclust.cli.bench.bench:bench", "Measure this broker, or any other AMQP broker."),
    "completion": ("openclust.cli.completion:completion", "Print the completion script of bash, zsh or fish."),
}


class CommandLine(click.Group):
    """A group that imports its commands late and reports errors in one way."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        try:
            command: click.Command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name == module:
                raise click.UsageError(f"this version has no command {cmd_name!r}", ctx) from None
            raise click.UsageError(
                f"the command {cmd_name!r} needs the Python package {error.name!r}; install it with pip", ctx
            ) from None
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin with the typed text. click would import all commands for their help texts."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no such command {args[0]!r}{_nearest(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs a command. With `standalone_mode` its exit code ends the process."""
        if standalone_mode:
            sys.exit(self._exit_code(args, prog_name, complete_var, **extra))
        return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)

    def _exit_code(
        self, args: Sequence[str] | None, prog_name: str | None, complete_var: str | None, **extra: Any
    ) -> int:
        from openclust.shell.config.schema import ConfigError  # small, but `--help` does without it

        try:
            result = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
            return result if isinstance(result, int) else DONE
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            return FAILED
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx is not None else "openclust"
            return _fail(f"{_sentence(error)} (see: {where} --help)")
        except click.ClickException as error:
            return _fail(_sentence(error))
        except (click.Abort, KeyboardInterrupt) as error:
            return _aborted(error)
        except ConfigError as error:
            return _fail(*error.problems)
        except BrokenPipeError:
            return _reader_gone()
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            return _fail(f"{place}{error.strerror or error}")
        except Exception as error:
            from openclust.shell.host.event_log import one_line

            return _fail(f"this is a mistake in openclust {__version__}, please report it: {one_line(error)}")


@click.command(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="openclust", message="%(prog)s %(version)s")
def openclust() -> None:
    """An AMQP 0-9-1 broker: `openclust start --cluster-key KEY` serves on 127.0.0.1:5672."""


def main() -> None:
    """The entry point of the installed script."""
    open_closed_streams()
    openclust.main(prog_name="openclust")


def open_closed_streams() -> None:
    """Opens the null device as stdin, stdout or stderr if the process was started without it (`>&-`).

    Otherwise the next file or socket would get the number of stdout, and every print would write into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _fail(*problems: str) -> int:
    for problem in problems:
        click.echo(f"openclust: error: {problem}", err=True)
    return FAILED


def _sentence(error: click.ClickException) -> str:
    """A message of click in our form: it begins with a small letter, and has no full stop."""
    text = " ".join(error.format_message().split()).removesuffix(".")
    return text[:1].lower() + text[1:]


def _aborted(error: BaseException) -> int:
    if isinstance(error.__cause__ or error.__context__, EOFError):
        return _fail("the input ended before the question was answered")
    return INTERRUPTED


def _reader_gone() -> int:
    """Keeps the interpreter from flushing into a closed pipe at exit: `openclust users list | head -1` is no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def _nearest(word: str) -> str:
    import difflib

    close = difflib.get_close_matches(word.lower(), COMMANDS, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(COMMANDS)}"
