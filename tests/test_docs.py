"""The documentation: what it lists is what there is, and its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import openclust.broker.connection  # noqa: F401  registers all handlers
from openclust.broker.channel import HANDLERS
from openclust.broker.exchange import TYPES
from openclust.broker.limits import Limits
from openclust.broker.login import CAPABILITIES
from openclust.broker.policy import OPERATOR_KEYS, POLICY_KEYS
from openclust.broker.setting import SETTINGS
from openclust.wire import errors, methods
from openclust.wire.codec import name_of
from openclust.wire.handshake import TRANSITIONS
from openclust.wire.properties import Properties

ROOT = Path(__file__).parent.parent
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])

METHODS = {
    name_of(value): value
    for value in vars(methods).values()
    if isinstance(value, type) and issubclass(value, methods.Method) and value is not methods.Method
}
# Pieces of a method that is taken before the handlers, or answers to what never needs more than being taken.
TAKEN_ELSEWHERE = {"basic.publish", "channel.open", "channel.close-ok"}


def section(title: str) -> str:
    """What stands under a heading of any level, up to the next one as high."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^\1 |^#{{1,2}} |\Z)", PROTOCOL, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/protocol.md has no section '{title}'"
    return found[2]


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows, without heads and rules."""
    found = [
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]
    return [cells for cells in found if cells[0].startswith("`")]


def by_name(title: str) -> dict[str, list[str]]:
    """The rows of a section by the name in their first cell, each once."""
    table: dict[str, list[str]] = {}
    for cells in rows(section(title)):
        name = cells[0].strip("`")
        assert name not in table, f"docs/protocol.md has {name} twice in '{title}'"
        table[name] = cells
    return table


def test_every_method_has_one_row_and_no_row_is_made_up() -> None:
    assert by_name("Methods").keys() == METHODS.keys()


@pytest.mark.parametrize("name", METHODS)
def test_a_row_says_whether_a_method_is_taken(name: str) -> None:
    """A method that clients send has a handler or a place in the handshake, one that only the server sends has none."""
    _, sender, supported, *_ = by_name("Methods")[name]
    assert sender in ("C", "S", "both") and supported in ("yes", "partly", "no")
    method = METHODS[name]
    in_handshake = any(kind is method for _, kind in TRANSITIONS)
    is_taken = method in HANDLERS or in_handshake or name in TAKEN_ELSEWHERE
    assert is_taken is (sender != "S" and supported != "no")


def test_every_capability_is_explained() -> None:
    assert list(by_name("Capabilities")) == list(CAPABILITIES)


def test_every_exchange_type_is_explained() -> None:
    assert set(by_name("Exchanges")) == {*TYPES, "alternate-exchange"}


def test_every_queue_argument_is_explained() -> None:
    wanted = [f"x-{name}" for name, setting in SETTINGS.items() if setting.by_argument]
    assert sorted(by_name("Queue arguments")) == sorted(wanted)


def test_every_setting_that_is_a_policy_key_and_no_argument_is_explained() -> None:
    wanted = [name for name, setting in SETTINGS.items() if not setting.by_argument]
    assert list(by_name("Policy keys of their own")) == wanted
    assert set(wanted) <= set(OPERATOR_KEYS), "the page says that operators may set them"


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if setting.by_argument])
def test_a_row_says_whether_a_policy_may_set_an_argument(name: str) -> None:
    _, _, policy, _ = by_name("Queue arguments")[f"x-{name}"]
    setting = SETTINGS[name]
    if name not in POLICY_KEYS:
        expected = "no"
    elif not setting.field:
        expected = "yes, no effect"
    elif setting.smaller_wins:
        expected = "limit"
    else:
        expected = "yes, also operators" if name in OPERATOR_KEYS else "yes"
    assert policy == expected


def test_every_limit_is_there_with_its_default() -> None:
    told = {name.removeprefix("limits."): cells[1] for name, cells in by_name("Limits").items()}
    defaults = Limits()
    assert told == {
        name: f"{getattr(defaults, name):g}" if name == "memory_high_watermark" else str(getattr(defaults, name))
        for name in Limits.__struct_fields__
    }


def test_every_error_code_is_there_with_its_name() -> None:
    found = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", section("Error codes"), re.MULTILINE)
    assert {int(code): name for code, name in found} == {
        code: name for code, name in errors.NAMES.items() if code > 200
    }


def test_properties_that_are_named_exist() -> None:
    known = {name.replace("_", "-") for name in Properties.__struct_fields__}
    named = [cells[0].strip("`") for cells in rows(section("Message properties"))]
    assert named
    assert set(named) <= known


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in headings(file)):
            wrong.append(target)
    assert not wrong, f"{page.relative_to(ROOT)}: links that lead nowhere: {', '.join(wrong)}"
