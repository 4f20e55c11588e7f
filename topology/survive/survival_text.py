"""Which failures a cluster survives, in sentences and in rows of a table, for people."""

from __future__ import annotations

from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from openclust.shell.host.event_log import escape
from topology.model.words import few, number
from topology.survive.combinations import CombinationGroup, Smallest, Survival

ROWS_MAX = 15
NAMES_MAX = 8
WIDTH = 150
"""The width of a table in a pipe or a file, which have no terminal's width."""

HEADERS = (
    "failures",
    "combinations",
    "root",
    "clients to move",
    "connections left",
    "memory left",
    "bandwidth left",
    "worst",
)
NUMBERS = HEADERS[3:7]


def sentences(survival: Survival) -> list[str]:
    """How much was checked, and the fewest failures that matter."""
    kinds = few(survival.kinds, len(survival.kinds))
    looked_at = sum(each.looked_at for each in survival.sizes)
    which = "Every combination" if survival.seed is None else "Combinations"
    up_to = f"{which} of up to {survival.most} failures" if survival.most > 1 else "Every single failure"
    of = f"{number(survival.failures)} that there are ({kinds})"
    said = [f"{up_to} of {of}: {number(looked_at)} looked at{', exact' if survival.seed is None else ''}."]
    said += [
        f"Of {each.failures} failures {number(each.looked_at)} of {number(each.total)} combinations were looked at, "
        f"drawn at random (seed {survival.seed}): others may be worse."
        for each in survival.sizes
        if each.is_sampled
    ]
    said += _of_root(survival)
    if survival.is_active_passive:
        said.append(
            "All clients go to the root (active-passive): what is left is what the smallest primary bears that can be "
            "root."
        )
    if survival.by_seniority is not None:
        what = "Whether a root is elected hangs on who is the most senior"
        said.append(_fewest(survival.by_seniority, what, ""))
    if survival.clients or survival.client_mbit:
        what = "There is too little room for the clients, and a root,"
        said.append(
            _fewest(survival.no_room, what, "No such failures were found that leave a root and too little room.")
        )
    else:
        said.append("The file expects no clients (topology.clients), so that any room is enough.")
    if required := of_required(survival):
        said.append(f"As required: it {required}." if not survival.shortfall else f"It {required}.")
    if survival.same:
        again = " = ".join(survival.same[0])
        said.append(f"What loses the same counts once ({len(survival.same)} such), as {again}.")
    return said


def _of_root(survival: Survival) -> list[str]:
    never = "No number of these failures ends the quorum."
    if survival.no_election == survival.no_root:
        return [_fewest(survival.no_root, "No root is left", never)]
    return [
        _fewest(survival.no_election, "No new root can be elected, and a sitting one may stay (exactly half),", never),
        _fewest(survival.no_root, "No root is left at all", never),
    ]


def of_required(survival: Survival) -> str:
    """Whether the cluster survives the required failures; empty if none are required."""
    if not survival.required:
        return ""
    failures = f"any {survival.required} failures" if survival.required > 1 else "any failure"
    if survival.shortfall:
        return f"does not survive {failures} of {few(survival.kinds, len(survival.kinds))}: {survival.shortfall}"
    return f"survives {failures} of {few(survival.kinds, len(survival.kinds))}"


def _fewest(found: Smallest | None, what: str, never: str) -> str:
    if found is None:
        return never
    if found.size == 0:
        return f"{what} even before anything fails."
    size = found.size or 0
    shown = "; ".join(_set(each) for each in found.sets)
    failures = f"{size} failure{'s' if size != 1 else ''}"
    if found.count is None:
        many = f", such as {shown}"
    else:
        many = (
            f": {shown}" if found.count <= len(found.sets) else f" ({number(found.count)} such sets), such as {shown}"
        )
    if found.is_exact:
        fewer = ", and with no fewer" if size > 1 else ""
        return f"{what} with {failures}{fewer}{many}."
    return f"{what} with {failures} or fewer, but not with {found.at_least - 1}{many}."


def _set(names: tuple[str, ...]) -> str:
    more = len(names) - NAMES_MAX
    return " + ".join(names[:NAMES_MAX]) + (f" + {more} more" if more > 0 else "")


def rows(survival: Survival) -> list[tuple[str, ...]]:
    """The cells under HEADERS, the worst first, at most ROWS_MAX."""
    return [_row(survival, each) for each in survival.groups[:ROWS_MAX]]


def left_out(survival: Survival) -> str:
    """A sentence on the groups that the table leaves out; empty if there are none."""
    others = survival.groups[ROWS_MAX:]
    if not others:
        return ""
    count = sum(each.looked_at for each in others)
    bad = sum(each.none + each.stays + each.no_room for each in others)
    what = "all of these leave a root and room enough" if not bad else f"{number(bad)} of these are worse than that"
    return f"{len(others)} more kinds with {number(count)} combinations: {what}."


def _row(survival: Survival, group: CombinationGroup) -> tuple[str, ...]:
    return (
        " + ".join(group.kinds),
        number(group.looked_at),
        root_of(group),
        number(group.moved) if survival.clients else "",
        number(group.connections) + (f" (too few in {number(group.no_room)})" if group.no_room else ""),
        "" if group.memory_mb is None else f"{number(group.memory_mb)} MB",
        "" if group.mbit is None else f"{number(group.mbit)} Mbit/s",
        " + ".join(group.worst),
    )


def root_of(group: CombinationGroup) -> str:
    """Whether there is a root, in a few words."""
    if group.elected == group.looked_at:
        return "elected"
    parts = []
    words = ((group.none, "none"), (group.stays, "stays, none new"), (group.by_seniority, "by seniority"))
    for count, word in words:
        if count:
            share = count / group.looked_at
            told = "<1 %" if share < 0.01 else f"{share:.0%}".replace("%", " %")
            parts.append(word if count == group.looked_at else f"{word} in {number(count)} ({told})")
    return ", ".join(parts)


def show_survival(survival: Survival, stream: TextIO, *, title: str) -> None:
    """Sentences, then the table."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    console.print(Text(f"\n{escape(title)}: what it survives", style="bold underline"))
    for said in sentences(survival):
        console.print(Text(f"  {escape(said)}"))
    if not survival.groups:
        return
    wide = Console(file=stream, highlight=False, width=None if console.is_terminal else WIDTH)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    told = rows(survival)
    shown = [i for i in range(len(HEADERS)) if any(row[i] for row in told)]
    for i in shown:
        justify = "right" if HEADERS[i] in NUMBERS or i == 1 else "left"
        table.add_column(HEADERS[i], justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row, group in zip(told, survival.groups, strict=False):
        table.add_row(*(Text(escape(row[i]), style=_style(i, group)) for i in shown))
    wide.print(table)
    if rest := left_out(survival):
        console.print(Text(f"  {rest}", style="dim"))


def show_required(survival: Survival, stream: TextIO, *, title: str) -> None:
    console = Console(file=stream, highlight=False, soft_wrap=True)
    text = Text(f"{escape(title)}: ", style="bold")
    console.print(text.append(escape(of_required(survival)), style="bold red" if survival.shortfall else "green"))


def _style(column: int, group: CombinationGroup) -> str:
    if column == 2:
        return "bold red" if group.none else "yellow" if group.stays or group.by_seniority else "green"
    return "bold red" if column == 4 and group.no_room else ""
