"""`openclust lint`: finds mistakes in cluster files, and differences between a running cluster and its file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from openclust.cli.topology.lint_output import (
    kinds_of,
    now_utc,
    output_options,
    outputs_of,
    run_of,
    survivals_of,
    survive_options,
    write,
)

if TYPE_CHECKING:
    from topology.lint.fix_files import Change
    from topology.model.graph import Model
    from topology.model.live_cluster import Live
    from topology.rules.finding import FileReport

Checked = list[tuple["FileReport", "Model | None"]]


@click.command()
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--select", multiple=True, metavar="ID", help="Only these rules, by id or its beginning: OC4,OC701.")
@click.option("--ignore", multiple=True, metavar="ID", help="Not these rules.")
@click.option(
    "--fail-level",
    type=click.Choice(["error", "warning", "info"]),
    default="error",
    show_default=True,
    help="Findings of this severity or worse are exit code 1.",
)
@click.option("--fix", is_flag=True, help="Mend what can be mended safely: spellings of names, a port left out.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix, also what takes a guess, or changes what brokers do.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, and write nothing; exit code 1 if it would.")
@click.option("--baseline", metavar="FILE", help="Findings that are in this file are old: they are only counted.")
@click.option("--write-baseline", is_flag=True, help="Write all findings to the --baseline; exit code 0.")
@click.option("--statistics", is_flag=True, help="Count findings by their rules, and do not tell them one by one.")
@output_options
@survive_options
@click.option(
    "--explain", metavar="ID", help="Say what a rule is about, and what to do, or list a group (OC4); nothing else."
)
@click.option("--live", metavar="URL", help="HTTP API of a broker: compare the running cluster with the file.")
@click.option("--resolve", is_flag=True, help="Ask the resolver of this machine for the addresses of names.")
def lint(
    files: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_level: str,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    baseline: str | None,
    write_baseline: bool,
    statistics: bool,
    format_: str,
    output: tuple[str, ...],
    docs_url: str,
    survive: int | None,
    require_survive: int | None,
    survive_kinds: tuple[str, ...],
    survive_max: int,
    seed: int,
    explain: str | None,
    live: str | None,
    resolve: bool,
) -> int:
    """Say what is wrong with cluster files: the outage in the file, before it finds you.

    In place of a directory all cluster files in it and below are looked at.

    Exit code 0 where they are clean, 1 with findings of --fail-level or worse or where --require-survive is not met,
    2 where a file cannot be used.
    """
    if explain is not None:
        return _explain(explain)
    if not files and live is None:
        raise click.UsageError("name a cluster file, such as conf/cluster.toml, or a running cluster with --live URL")
    if live is not None and len(files) > 1:
        raise click.UsageError("--live compares one file with the running cluster")
    if write_baseline and baseline is None:
        raise click.UsageError("--write-baseline: say where to, with --baseline FILE")
    if unsafe_fixes and not (fix or diff):
        raise click.UsageError("--unsafe-fixes goes with --fix or --diff")
    if (fix or diff) and ("-" in files or live is not None):
        raise click.UsageError("--fix and --diff take files, not standard input and not --live")
    if statistics and format_ not in ("text", "json"):
        raise click.UsageError(f"--statistics is told as text or json, not as {format_}")
    from topology.lint.cluster_files import expanded
    from topology.lint.fix_files import with_fixable

    outputs = outputs_of(format_, output)
    began = now_utc()
    chosen = _codes("--select", select), _codes("--ignore", ignore)
    names = expanded(files)
    there = {"running cluster": live is not None, "other files": len(names) > 1, "resolver": resolve}
    _must_leave_rules(*chosen, there)
    if live is not None and len(names) > 1:
        raise click.UsageError(f"--live compares one file with the running cluster, and {files[0]} has {len(names)}")
    changes: list[Change] = []
    if fix or diff:
        checked, changes = _fix(names, *chosen, resolve, unsafe=unsafe_fixes)
    else:
        checked = _check(tuple(names), *chosen, live, resolve)
    if diff:
        click.echo("".join(each.diff for each in changes), nl=False)
        return max(int(bool(changes)), *(report.exit_code() for report, _ in checked if report.is_bad_input), 0)
    for each in changes:
        each.write()
    if write_baseline and baseline is not None:
        return _write_baseline([report for report, _ in checked], baseline)
    if baseline is not None:
        checked = _without_old(checked, baseline)
    checked = with_fixable(checked)
    survivals = survivals_of(checked, survive, require_survive, kinds_of(survive_kinds), survive_max, seed)
    run = run_of(checked, survivals, fail_level, began, docs_url, only_counts=statistics)
    write(run, outputs)
    return run.exit_code


def _check(files: tuple[str, ...], select: list[str], ignore: list[str], url: str | None, resolve: bool) -> Checked:
    from topology.lint.check import check_all
    from topology.lint.imported import check_live

    live, source = (None, "") if url is None else _ask(url)
    if live is not None and not files:
        return [check_live(live, source=source, select=select, ignore=ignore)]
    return check_all(list(dict.fromkeys(files)), select=select, ignore=ignore, live=live, with_resolver=resolve)


def _fix(
    names: list[str], select: list[str], ignore: list[str], resolve: bool, *, unsafe: bool
) -> tuple[Checked, list[Change]]:
    from topology.lint.check import check_all
    from topology.lint.fix_files import fix_all

    def check(contents: Mapping[str, bytes]) -> Checked:
        return check_all(names, select=select, ignore=ignore, contents=contents, with_resolver=resolve)

    return fix_all(names, check, unsafe=unsafe)


def _write_baseline(reports: list[FileReport], path: str) -> int:
    from topology.lint.baseline import text_of

    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text_of(reports, path))
    unusable = [each.file for each in reports if each.is_bad_input]
    for file in unusable:
        click.echo(f"{file}: cannot be used, and is not in the baseline", err=True)
    count = sum(len(each.findings) for each in reports if not each.is_bad_input)
    click.echo(f"{path}: written, with {count} finding{'' if count == 1 else 's'}")
    return 2 if unusable else 0


def _without_old(checked: Checked, path: str) -> Checked:
    import msgspec

    from topology.lint.baseline import read, without_old

    if not os.path.exists(path):
        raise click.ClickException(f"--baseline {path}: there is no such file; --write-baseline writes it")
    try:
        old = read(path)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    found: Checked = []
    for report, model in checked:
        left, mended = without_old(report, old, path)
        found.append((msgspec.structs.replace(left, mended=mended), model))
    return found


def _explain(code: str) -> int:
    """Explains a rule, or all rules whose ids begin with the text."""
    from topology.output.plain_text import show_rule, show_rules
    from topology.rules.rule import all_rules

    beginning = code.strip().upper()
    found = [each for each in all_rules() if beginning and each.code.startswith(beginning)]
    if not found:
        raise click.UsageError(f"there is no rule {code!r}; there are {', '.join(each.code for each in all_rules())}")
    if found[0].code == beginning:
        show_rule(found[0], sys.stdout)
    else:
        show_rules(found, sys.stdout)
    return 0


def _must_leave_rules(select: list[str], ignore: list[str], there: dict[str, bool]) -> None:
    """Refuses a run without rules, whose result would mean nothing. `there` names inputs of rules beside the file."""
    from topology.lint.check import is_wanted
    from topology.rules.rule import all_rules

    wanted = [each for each in all_rules() if is_wanted(each.code, select, ignore)]
    chosen = " ".join(
        f"--{name} {','.join(codes)}" for name, codes in (("select", select), ("ignore", ignore)) if codes
    )
    if not wanted:
        raise click.UsageError(f"{chosen}: leaves no rule to ask")
    if not any(there.get(each.needs, True) for each in wanted):
        ways = {"running cluster": "--live URL", "other files": "several files", "resolver": "--resolve"}
        needed = " or ".join(dict.fromkeys(ways[each.needs] for each in wanted))
        raise click.UsageError(f"{chosen}: leaves no rule to ask without {needed}")


def _codes(option: str, given: tuple[str, ...]) -> list[str]:
    """Ids of rules, or beginnings of ids. Rules for each of them must exist."""
    from topology.rules.rule import all_rules

    codes = [each.strip().upper() for text in given for each in text.split(",") if each.strip()]
    known = [each.code for each in all_rules()]
    for code in codes:
        if not any(each.startswith(code) for each in known):
            raise click.UsageError(f"{option} {code}: no rule begins so; there are {', '.join(known)}")
    return codes


def _ask(url: str) -> tuple[Live, str]:
    from openclust.cli.access.login import client_for
    from openclust.cli.cluster.cluster_view import ask
    from topology.model.live_cluster import live_of

    client = client_for((url,), None, None, None)
    _, document = ask(client)
    return live_of(document), client.base
