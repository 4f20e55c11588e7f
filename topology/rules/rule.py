"""Rules: functions of the model, each under an id that never changes its meaning."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from topology.rules.finding import Found, Severity

if TYPE_CHECKING:
    from topology.model.graph import Model

Check = Callable[["Model"], Iterable[Found]]
Needs = Literal["file", "running cluster", "other files", "resolver"]
"""The input that a rule needs besides the cluster file itself."""

GROUPS = {
    "OC1": "the file",
    "OC2": "names and addresses",
    "OC3": "links and paths",
    "OC4": "quorum and failure domains",
    "OC5": "timing",
    "OC6": "capacity",
    "OC7": "security",
    "OC8": "the running cluster",
}


UNMATCHED = "OC109"
"""The rule about suppressions. It is checked after all others."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `title` names the mistake, `why` tells its consequences, and `fix` what to do.

    `check` is None for findings of reading the file, before there is a model, and for `UNMATCHED`.
    """

    code: str
    severity: Severity
    title: str
    why: str
    fix: str
    needs: Needs = "file"
    check: Check | None = None

    @property
    def group(self) -> str:
        return GROUPS[self.code[:3]]

    def can_be_asked(self, model: Model) -> bool:
        """Whether the model has the input that the rule needs. Otherwise the rule has neither passed nor failed."""
        if self.needs == "running cluster":
            return model.live is not None
        if self.needs == "resolver":
            return model.resolved is not None
        return self.needs == "file" or bool(model.others)


RULES: dict[str, Rule] = {}
"""All rules by their ids. Importing `topology.rules` fills it."""


def rule(
    code: str, severity: Severity, *, title: str, why: str, fix: str, needs: Needs = "file"
) -> Callable[[Check], Check]:
    """The decorator that registers a function as a rule."""

    def register(check: Check) -> Check:
        add(Rule(code=code, severity=severity, title=title, why=why, fix=fix, needs=needs, check=check))
        return check

    return register


def add(new: Rule) -> Rule:
    assert new.code not in RULES, f"{new.code} is there already"
    assert new.code[:3] in GROUPS, f"{new.code} is in no group"
    RULES[new.code] = new
    return new


def all_rules() -> list[Rule]:
    """All rules, by their ids."""
    import topology.rules  # noqa: F401  registers them

    return [RULES[code] for code in sorted(RULES)]
