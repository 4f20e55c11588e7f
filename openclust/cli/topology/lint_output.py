"""The outputs of `openclust lint`: their formats and files, and the survivals beside the findings."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from topology.model.graph import Model
    from topology.model.loss import LossKind
    from topology.output.formats import LintRun
    from topology.rules.finding import FileReport
    from topology.survive.combinations import Survival

FORMATS = ("text", "json", "sarif", "github", "junit", "markdown")
STDOUT = "-"

Checked = Sequence[tuple["FileReport", "Model | None"]]


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option(
        "--docs-url",
        default="",
        metavar="URL",
        help="Where your readers find the page of all rules, for links in SARIF; by default the installed one.",
    )(command)
    command = click.option(
        "-o",
        "--output",
        multiple=True,
        metavar="[FORMAT:]FILE",
        help="Write to FILE instead of standard output; with a format before it, as well. May be given several times.",
    )(command)
    return click.option(
        "--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True, help="What to print."
    )(command)


def survive_options(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option(
            "--survive",
            type=click.IntRange(1, 20),
            metavar="K",
            help="Also tell what every combination of up to K failures leaves, and the fewest that end the quorum.",
        ),
        click.option(
            "--require-survive",
            type=click.IntRange(1, 20),
            default=None,
            metavar="K",
            help="Exit code 1 unless a root is elected, whoever is the most senior, after any K failures.",
        ),
        click.option("--survive-kinds", multiple=True, metavar="KIND", help="What fails: broker,zone. Default: all."),
        click.option(
            "--survive-max",
            type=click.IntRange(1_000, 1_000_000_000),
            default=1_000_000,
            show_default=True,
            help="Combinations to look at; of more, some are drawn at random.",
        ),
        click.option("--seed", type=int, default=1, show_default=True, help="Of what is drawn at random."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def outputs_of(format_: str, given: Sequence[str]) -> list[tuple[str, str]]:
    """Format and file of each output; "-" is standard output."""
    from topology.output.formats import named

    outputs = named(given)
    for word, file in outputs:
        if word and word not in FORMATS:
            raise click.UsageError(
                f"--output {word}:{file}: there is no format {word!r}; there are {', '.join(FORMATS)}"
            )
        if not file:
            raise click.UsageError(f"--output {word}:: wanted FORMAT:FILE")
    plain = [file for word, file in outputs if not word]
    if len(plain) > 1:
        raise click.UsageError(f"--output {plain[1]}: say which format, such as sarif:{plain[1]}")
    others = [(word, file) for word, file in outputs if word]
    return [(format_, plain[0] if plain else STDOUT), *others]


def kinds_of(given: Sequence[str]) -> tuple[LossKind, ...]:
    from topology.model.loss import LOSS_KINDS

    words = [each.strip().lower() for text in given for each in text.split(",") if each.strip()]
    for word in words:
        if word not in LOSS_KINDS:
            raise click.UsageError(f"--survive-kinds {word}: there is no such kind; there are {', '.join(LOSS_KINDS)}")
    return tuple(kind for kind in LOSS_KINDS if not words or kind in words)


def now_utc() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())


def survivals_of(
    checked: Checked,
    most: int | None,
    required: int | None,
    kinds: tuple[LossKind, ...],
    combinations_max: int,
    seed: int,
) -> list[Survival | None]:
    """The survival of each file; None if it was not asked for, or if the file cannot be used."""
    from topology.survive.combinations import survive

    return [
        None
        if (most is None and required is None) or model is None
        else survive(
            model, most or 0, kinds=kinds, combinations_max=combinations_max, seed=seed, required=required or 0
        )
        for _, model in checked
    ]


def run_of(
    checked: Checked,
    survivals: Sequence[Survival | None],
    fail_level: str,
    began: str,
    docs_url: str,
    *,
    only_counts: bool = False,
) -> LintRun:
    from topology.output.formats import LintRun, result_of
    from topology.rules.finding import Severity

    results = [result_of(report, survival=survival) for (report, _), survival in zip(checked, survivals, strict=True)]
    return LintRun(
        results=tuple(results),
        fail_level=Severity[fail_level.upper()],
        began=began,
        docs_url=docs_url,
        only_counts=only_counts,
    )


def write(run: LintRun, outputs: Sequence[tuple[str, str]]) -> None:
    """Writes all outputs. If a file cannot be written, raises OSError after all others are written."""
    from topology.output.formats import FORMATS as WRITERS
    from topology.output.formats import show_text

    failed: OSError | None = None
    for word, file in outputs:
        if file != STDOUT:
            try:
                with open(file, "w", encoding="utf-8", errors="backslashreplace") as stream:
                    stream.write(WRITERS[word](run))
            except OSError as error:
                failed = failed or error
        elif word == "text":
            show_text(run, sys.stdout)
        else:
            click.echo(WRITERS[word](run), nl=False)
    if failed is not None:
        raise failed
