"""OC1: whether the file can be used, and whether the brokers and nodes that it names exist in it."""

from __future__ import annotations

from collections.abc import Iterator

from openclust.shell.config.keys import did_you_mean
from topology.model.graph import Model
from topology.rules.copies import are_copies, differences
from topology.rules.finding import Found, Severity
from topology.rules.rule import RULES, UNMATCHED, Rule, add, rule

add(
    Rule(
        code="OC101",
        severity=Severity.ERROR,
        title="The file cannot be read, or is no TOML",
        why="No broker starts with it.",
        fix="Mend what stands at that line and column; a file that is missing is named as it was given.",
    )
)
add(
    Rule(
        code="OC102",
        severity=Severity.ERROR,
        title="A key or section that there is not",
        why="Whoever wrote it believes that it does something. A broker refuses the file rather than guess.",
        fix="Write the key that is suggested, or take it out. docs/configuration.md has them all.",
    )
)
add(
    Rule(
        code="OC103",
        severity=Severity.ERROR,
        title="A value that its key does not take",
        why="A broker refuses the file rather than guess what was meant.",
        fix="Write a value as the message wants it.",
    )
)


@rule(
    "OC104",
    Severity.ERROR,
    title="A name that is of no broker and no node",
    why="A link or a setting of something that the file does not have is left out of all that is said here, "
    "so that the picture is better or worse than the truth.",
    fix="Correct the name, or add the broker or node. Brokers that only join are in [topology.secondaries].",
)
def names_of_nothing(model: Model) -> Iterator[Found]:
    known = [*model.brokers, *model.nodes]
    for name, where, line in model.strangers:
        yield Found(f"{where}: there is no {name!r}{did_you_mean(name, known)}", line=line)
    for each in model.config.topology.ignore:
        for name in each.brokers:
            if name not in model.brokers:
                line = model.line("topology", "ignore")
                yield Found(
                    f"topology.ignore: there is no broker {name!r}{did_you_mean(name, model.brokers)}", line=line
                )


@rule(
    "OC105",
    Severity.ERROR,
    title="A link that has no two ends",
    why="It joins nothing, and is left out.",
    fix='Write between = ["one", "other"], with two names that differ.',
)
def links_without_two_ends(model: Model) -> Iterator[Found]:
    for index, each in enumerate(model.config.topology.links):
        if len(each.between) != 2 or each.between[0] == each.between[1]:
            ends = ", ".join(each.between) or "nothing"
            line = model.line("topology", "links", str(index))
            yield Found(f"topology.links.{index}: is between {ends}; wanted two ends", line=line)


@rule(
    "OC106",
    Severity.ERROR,
    title="Findings ignored without a reason, or of a rule that there is not",
    why="Nobody will know later whether it is still meant to be so. What has no reason is not ignored.",
    fix='Write reason = "..." beside the rule, in words for whoever reads the file next year.',
)
def ignored_without_reason(model: Model) -> Iterator[Found]:
    for index, each in enumerate(model.config.topology.ignore):
        line = model.line("topology", "ignore", str(index))
        if each.rule not in RULES:
            yield Found(f"topology.ignore: there is no rule {each.rule!r}{did_you_mean(each.rule, RULES)}", line=line)
        elif not each.reason.strip():
            yield Found(f"topology.ignore: {each.rule} is to be ignored and no reason is given", line=line)


@rule(
    "OC107",
    Severity.ERROR,
    title="A file that names no broker",
    why="There is nothing to judge, so that clean would say nothing. A blank file is as a rule one that was not "
    "written, or not copied, in full. A file of settings for a broker alone is no mistake, and no cluster either.",
    fix="Name the primaries in [cluster.primaries.NAME]; openclust topology new writes a file to begin with.",
)
def names_no_broker(model: Model) -> Iterator[Found]:
    if model.is_blank:
        yield Found("the file says nothing: no key, and no broker")
    elif model.file and not model.brokers and not model.twins:
        yield Found("the file names no broker: nothing of a cluster can be judged", severity=Severity.INFO)


@rule(
    "OC108",
    Severity.ERROR,
    title="Copies of one file that have drifted apart",
    why="Every broker of a cluster has a copy. Brokers whose lists of primaries, heartbeats or secrets differ refuse "
    "each other, and one whose address differs is dialled where it is not. Of other settings it hangs on who is root "
    "which ones hold; that is a warning.",
    fix="Bring all copies to one, and keep a broker's own settings in flags, the environment or [topology.settings].",
    needs="other files",
)
def drifted_apart(model: Model) -> Iterator[Found]:
    for other in model.others:
        if not are_copies(model.config, other.config):
            continue
        for each in differences(model.config, other.config):
            yield Found(
                f"{each.what} is {each.here} here, and {each.there} in {other.file}",
                brokers=each.brokers,
                line=model.line(*each.path),
                severity=Severity.ERROR if each.is_refused else Severity.WARNING,
                alike=f"{each.what} {each.there}",
                subject=other.file,
            )


add(
    Rule(
        code=UNMATCHED,
        severity=Severity.WARNING,
        title="A suppression that matches nothing",
        why="What it was for is mended, or was never found: the rule or the brokers are others. If the defect comes "
        "back, it is ignored without a word.",
        fix="Take it out of [[topology.ignore]], or correct its rule and its brokers.",
    )
)
