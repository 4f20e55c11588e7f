"""The documentation: what it lists is what there is, and its links lead somewhere.

Docstrings and comments are documentation too: the files, classes and other names that they mention exist.
"""

from __future__ import annotations

import ast
import builtins
import functools
import keyword
import re
import ssl
from pathlib import Path

import click
import pytest

import openclust.broker.amqp.connection  # noqa: F401  registers all handlers
from openclust.broker.amqp.channel import HANDLERS
from openclust.broker.amqp.start_frame import CAPABILITIES
from openclust.broker.model.limits import Limits
from openclust.broker.model.policy import OPERATOR_KEYS, POLICY_KEYS
from openclust.broker.model.queue_setting import SETTINGS
from openclust.broker.routing.exchange import TYPES
from openclust.cli import exit_codes
from openclust.cli.main import openclust as openclust_command
from openclust.manage.api.routes import ROUTES
from openclust.manage.api.table import with_table
from openclust.wire import errors, methods
from openclust.wire.codec import name_of
from openclust.wire.handshake import TRANSITIONS
from openclust.wire.properties import Properties
from tests.support.paths import ROOT
from tests.support.syntax_trees import statements_of, tree_of

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


# -- names of what is in the tree

SOURCES = sorted(path for folder in ("openclust", "topology") for path in (ROOT / folder).rglob("*.py"))
FILE_NAME = re.compile(r"[\w./-]+\.py\b")
QUOTED = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"(_*[A-Za-z]\w*(?:\.\w+)*)(?:\([^)]*\))?")
MODULE = re.compile(r"(?<![\w./-])(?:openclust|tests)(?:\.[a-z_]\w*)+\b(?!/)")
COMMENT = re.compile(r"(?:^|\s)# .*")


@functools.cache
def files_by_name() -> dict[str, list[Path]]:
    """All files of the tree: `queue.py` may be several."""
    found: dict[str, list[Path]] = {}
    for path in (path for folder in ("openclust", "topology", "tests") for path in (ROOT / folder).rglob("*.py")):
        found.setdefault(path.name, []).append(path)
    return found


@functools.cache
def ends_of_paths() -> frozenset[str]:
    """Every way to name a file of the tree: `queue.py`, `queues/queue.py`, up to its whole path."""
    parts = [path.relative_to(ROOT).parts for paths in files_by_name().values() for path in paths]
    return frozenset("/".join(each[start:]) for each in parts for start in range(len(each)))


def missing_files(text: str) -> list[str]:
    return [name for name in FILE_NAME.findall(text) if name not in ends_of_paths() and "site-packages" not in name]


def docstrings(tree: ast.Module) -> list[ast.Constant]:
    """Those of a module, its functions, classes and attributes."""
    alone = [node.value for node, *_ in statements_of(tree) if isinstance(node, ast.Expr)]
    return [node for node in alone if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def said_and_done(file: Path) -> tuple[list[str], str]:
    """The docstrings and comments of a file, and its code without them."""
    found = docstrings(tree_of(file))
    lines = file.read_text(encoding="utf-8").splitlines()
    for node in found:
        lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or node.lineno) - node.lineno + 1)
    code = "\n".join(lines)
    return [*(str(node.value) for node in found), *COMMENT.findall(code)], COMMENT.sub("", code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    missing = missing_files(page.read_text(encoding="utf-8"))
    assert not missing, f"{page.relative_to(ROOT)} names files that are not there: {', '.join(missing)}"


def is_there(module: str) -> bool:
    """Whether there is such a module or package, or one that has a name of its own for what follows."""
    parts = module.split(".")
    for count in range(len(parts), 0, -1):
        folder = ROOT.joinpath(*parts[:count])
        file = folder.with_suffix(".py") if folder.with_suffix(".py").exists() else folder / "__init__.py"
        if file.exists() or folder.is_dir():
            code = file.read_text(encoding="utf-8") if file.exists() else ""
            return all(re.search(rf"\b{name}\b", code) for name in parts[count:])
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_a_page_names_exist(page: Path) -> None:
    missing = [name for name in MODULE.findall(page.read_text(encoding="utf-8")) if not is_there(name)]
    assert not missing, f"{page.relative_to(ROOT)} names modules that are not there: {', '.join(missing)}"


FUNCTION = re.compile(r"`([\w/]+\.py)::([\w.]+)`")


@functools.cache
def functions_of(file: str) -> frozenset[str]:
    """The classes and functions of each file whose path ends so, by their names inside it: `Broker.settle`."""

    def names(body: list[ast.stmt], prefix: str = "") -> list[str]:
        found = []
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.append(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                found += names(node.body, f"{prefix}{node.name}.")
        return found

    paths = files_by_name().get(Path(file).name, [])
    trees = [tree_of(path) for path in paths if str(path).endswith(f"/{file}")]
    return frozenset(name for tree in trees for name in names(tree.body))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_functions_that_a_page_names_exist_in_the_files_it_names(page: Path) -> None:
    told = FUNCTION.findall(page.read_text(encoding="utf-8"))
    wrong = [f"{file}::{name}" for file, name in told if name not in functions_of(file)]
    assert not wrong, f"{page.relative_to(ROOT)} names functions that are not there: {', '.join(wrong)}"


def test_the_walk_of_a_message_names_the_function_of_each_hop() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    hops = re.findall(r"^\| \d+ \|(.*)$", page, re.MULTILINE)
    assert hops and all(FUNCTION.search(hop) for hop in hops)


def test_names_in_docstrings_and_comments_exist() -> None:
    """A name in backticks is a word of the code somewhere: what was renamed or removed is found by its old name."""
    texts: dict[Path, list[str]] = {}
    words = {*dir(builtins), *keyword.kwlist, *dir(ssl), *dir(ssl.SSLObject)}
    for path in SOURCES:
        texts[path], code = said_and_done(path)
        words.update(path.relative_to(ROOT).with_suffix("").parts)
        words.update(re.findall(r"\w+", code))
    wrong = []
    for path, found in texts.items():
        for text in found:
            names = [match[1] for quoted in QUOTED.findall(text) if (match := NAME.fullmatch(quoted))]
            gone = [name for name in names if not name.endswith(".py") and not words.issuperset(name.split("."))]
            wrong += [f"{path.relative_to(ROOT)}: {name}" for name in gone + missing_files(text)]
    assert not wrong, "docstrings or comments name what is not there:\n" + "\n".join(wrong)


# -- commands

CODE = re.compile(r"^```\w*\n(.*?)^```|^    (\S[^\n]*)|`([^`]+)`", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[$;&|] |=\S+ |bin/)openclust ([^|;&>#\n]+)", re.MULTILINE)


def commands_of(text: str) -> list[str]:
    """The openclust commands in the code of a page, each without the program's name."""
    code = ["".join(parts) for parts in CODE.findall(re.sub(r"\\\n\s*", "", text))]
    return [found for each in code for found in COMMAND.findall(each)]


def options_of(command: click.Command) -> set[str]:
    """Of a group, also those of its subcommands: `openclust bench --start` means one of them."""
    context = click.Context(command)
    found = {option for each in command.get_params(context) for option in each.opts + each.secondary_opts}
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            found |= {f"--{name}"} | options_of(each)
    return found


def unknown_part(line: str) -> str | None:
    """The first subcommand or option of a command line that this version does not have."""
    words = re.sub(r"[\[\]'\"]", " ", line).split()
    command: click.Command = openclust_command
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return words[0]
        command, words = found, words[1:]
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return next((option for option in given if option not in options_of(command)), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_a_page_shows_exist_with_their_options(page: Path) -> None:
    lines = commands_of(page.read_text(encoding="utf-8"))
    wrong = {line: part for line in lines if (part := unknown_part(line)) is not None}
    assert not wrong, f"{page.relative_to(ROOT)} shows commands or options that are not there: {wrong}"


def all_commands(command: click.Group, prefix: str = "") -> list[str]:
    """Every command that does something, after the groups that it is in. The bench has a page of its own."""
    found = []
    for name in command.list_commands(click.Context(command)):
        each = command.get_command(click.Context(command), name)
        if isinstance(each, click.Group) and name != "bench":
            found += all_commands(each, f"{prefix}{name} ")
        else:
            found.append(f"{prefix}{name}")
    return found


def test_the_page_on_commands_has_an_example_of_each() -> None:
    lines = commands_of((ROOT / "docs" / "commands.md").read_text(encoding="utf-8"))
    shown = [f"{line.strip()} " for line in lines]
    wanted = all_commands(openclust_command)
    missing = [name for name in wanted if not any(line.startswith(f"{name} ") for line in shown)]
    assert not missing, f"docs/commands.md has no example of {', '.join(missing)}"


def test_the_page_on_commands_has_every_exit_code() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert told == {exit_codes.DONE, exit_codes.NO, exit_codes.FAILED, exit_codes.INTERRUPTED}


# -- the HTTP API


def test_every_call_of_the_http_api_has_a_row() -> None:
    page = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
    wanted = with_table(page, ROUTES)
    assert page == wanted, "the table is old: renew it with .venv/bin/python -m openclust.manage.api.table"


def test_the_page_on_the_http_api_makes_no_call_up() -> None:
    text = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
    told = set()
    for cells in rows(text):
        paths = re.findall(r"/(?:api/|metrics)[\w/.-]*", cells[0])
        told |= {(method, path) for method in re.findall(r"`([A-Z]+)\b", cells[0]) for path in paths}
    assert told == {(method, re.sub(r"{(\w+)}", lambda part: part[1].upper(), path)) for method, path, *_ in ROUTES}
