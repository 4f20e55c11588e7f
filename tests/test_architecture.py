"""The shape of the house: which layer and folder may import which, what the sans-I/O layers may not touch, names."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import networkx as nx  # type: ignore[import-untyped]
import pytest

from tests.support.paths import ROOT
from tests.support.syntax_trees import statements_of, tree_of

PACKAGES = ("openclust", "topology")

LAYERS = {"wire": 0, "broker": 1, "cluster": 2, "node": 3, "shell": 4}
"""The lower five: each may import those below it. All else in `openclust` is people and tools, above `shell`."""

TOOLS = 5
SANS_IO = ("wire", "broker", "cluster")

ON_DEMAND = {"cli": {"bench", "client", "federation", "manage", "topology"}}
"""Neighbours that a tool may import inside a function: `openclust start` must not wait for what `bench` needs."""

COMMANDS_OF = {"topology": {"topology", "simulate"}, "bench": {"bench", "simulate"}}
"""The folders of `cli` with the commands of a tool. They may import it at their top, because the command line loads
commands on demand; whoever imports from them does so inside a function, or is one of them.
"""

_IO_MODULES = """
    aio_pika aiohttp aiormq asyncio builtins concurrent ctypes fcntl http importlib io logging mmap multiprocessing os
    pathlib pickle platform psutil queue random resource sched secrets select selectors shelve shutil signal socket
    socketserver sqlite3 ssl subprocess sys tempfile threading time urllib uuid
"""
IO_MODULES = frozenset(_IO_MODULES.split())
"""Sockets, disk, clock, chance, threads, the process: what comes into the lower layers as an event or an argument."""

IO_CALLS = frozenset({"__import__", "breakpoint", "exec", "eval", "input", "open", "print"})
CLOCK_CALLS = frozenset({"now", "today", "utcnow"})

_TOP_LEVEL = """
    .ci .git .github .gitignore CHANGELOG.md CONTRIBUTING.md LICENSE Makefile README.md conf docs openclust
    pyproject.toml setup.cfg tests topology
"""
TOP_LEVEL = frozenset(_TOP_LEVEL.split())


FILES_MAX = 16
"""Of a folder: so many names can be read at a glance."""

MODULES_IN_TYPING_CYCLES_MAX = {"broker": 5}
"""How many modules of a package lie in import cycles where those for type checkers count too; 0 for all others.

These numbers may only go down.
"""


class Import(NamedTuple):
    """One import of one module of ours, or of somebody else's.

    `is_lazy`: within a function. `is_typing`: for type checkers only.
    """

    file: Path
    line: int
    module: str
    is_lazy: bool
    is_typing: bool = False

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: imports {self.module}"


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imports_of(file: Path, tree: ast.Module) -> Iterator[Import]:
    """All imports, also those for type checkers only: an annotation points at a layer as well as a call does."""
    package = file.relative_to(ROOT).with_suffix("").parts[:-1]
    for node, is_lazy, is_typing in statements_of(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(file, node.lineno, alias.name, is_lazy, is_typing)
        elif isinstance(node, ast.ImportFrom):
            start = list(package[: len(package) - node.level + 1]) if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from openclust.broker import queue` may name a module or something in one.
                yield Import(file, node.lineno, f"{base}.{alias.name}", is_lazy, is_typing)


@cache
def imports_in(file: Path) -> tuple[Import, ...]:
    return tuple(imports_of(file, tree_of(file)))


@cache
def layer_of(module: str) -> str:
    """The layer a dotted name lies in: `wire`, ..., a tool's name, or `` for what belongs to none."""
    parts = module.split(".")
    if parts[0] == "topology":
        return "topology"
    if parts[0] != "openclust" or len(parts) == 1:
        return ""
    known = (ROOT / "openclust" / parts[1]).is_dir() or (ROOT / "openclust" / f"{parts[1]}.py").is_file()
    return parts[1] if known or parts[1] in LAYERS else ""


@cache
def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def complaint(importer: str, wanted: Import) -> str:
    """What is wrong with an import in layer `importer`; empty if nothing is."""
    target = layer_of(wanted.module)
    parts = wanted.module.split(".")
    folder = wanted.file.parent.name
    if target == "cli" and importer == "cli" and not wanted.is_lazy:
        needing_tools = set().union(*COMMANDS_OF.values())
        if {*parts[2:3]} & needing_tools and folder not in needing_tools:
            return f"{wanted}: commands that need other tools are loaded on demand"
    if not target or target == importer or importer == "__main__":
        return ""
    if importer == "topology":
        return "" if target in LAYERS else f"{wanted}: topology stands beside people and tools, on what is below them"
    if target in ON_DEMAND.get(importer, ()):
        is_its_command = folder in COMMANDS_OF.get(target, ())
        return (
            ""
            if wanted.is_lazy or is_its_command
            else f"{wanted}: {importer} imports {target} inside the function that needs it"
        )
    if target == "topology":
        return "" if importer == "manage" else f"{wanted}: {importer} has no business with cluster files"
    if LAYERS.get(importer, TOOLS) > LAYERS.get(target, TOOLS):
        return ""
    return f"{wanted}: {importer} is not above {target}"


def test_imports_point_downwards() -> None:
    wrong = []
    for file in sources():
        importer = layer_of(module_of(file))
        found = imports_in(file)
        if not importer:
            # openclust/__init__.py: everybody's, so it leans on nobody.
            wrong += [f"{each}: the package itself imports no layer" for each in found if layer_of(each.module)]
            continue
        wrong += [text for each in found if (text := complaint(importer, each))]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("importer", "module", "is_lazy"),
    [
        ("wire", "openclust.broker.queues.queue", False),
        ("wire", "openclust.broker.queues.queue", True),
        ("broker", "openclust.cluster.election.election", False),
        ("cluster", "openclust.node.Node", False),
        ("cluster", "openclust.shell.host.event_log", False),
        ("node", "openclust.shell.host.event_log", False),
        ("shell", "openclust.cli.main", True),
        ("bench", "openclust.manage", True),
        ("manage", "openclust.cli.main", False),
        ("cli", "openclust.bench.client.url", False),
        ("cli", "openclust.cli.bench.bench", False),
        ("broker", "topology.rules", True),
        ("shell", "topology.model.graph", True),
        ("topology", "openclust.cli.term", False),
    ],
)
def test_an_import_upwards_or_aside_is_found(importer: str, module: str, is_lazy: bool) -> None:
    assert complaint(importer, Import(ROOT / "openclust" / "x.py", 1, module, is_lazy)).startswith("openclust/x.py:1: ")


@pytest.mark.parametrize(
    ("importer", "module", "is_lazy"),
    [
        ("broker", "openclust.wire.frames", False),
        ("node", "openclust.cluster.election.election", False),
        ("shell", "openclust.node.Node", False),
        ("cli", "openclust.shell.config.schema", False),
        ("cli", "openclust.bench.client.url", True),
        ("shell", "asyncio", False),
        ("wire", "openclust.__version__", False),
        ("topology", "openclust.shell.config.load", False),
    ],
)
def test_an_import_downwards_is_fine(importer: str, module: str, is_lazy: bool) -> None:
    assert complaint(importer, Import(ROOT / "openclust" / "x.py", 1, module, is_lazy)) == ""


@cache
def modules() -> dict[str, Path]:
    return {module_of(file): file for file in sources()}


@cache
def imports_between_modules() -> tuple[tuple[str, str, Import], ...]:
    """Who imports whom, of the modules of ours."""
    found = []
    for importer, file in modules().items():
        for each in imports_in(file):
            target = each.module if each.module in modules() else each.module.rpartition(".")[0]
            if target in modules() and target != importer:
                found.append((importer, target, each))
    return tuple(found)


def cycles(edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """What imports itself in a roundabout way, all that hangs together as one."""
    return sorted(sorted(part) for part in nx.strongly_connected_components(nx.DiGraph(list(edges))) if len(part) > 1)


PARTS = sorted(
    {module_of(file.parent / "x.py").removesuffix(".x").rpartition(".")[0] for file in sources()} - {"", "openclust"}
)
"""The packages that have folders in them: `openclust.broker`, `topology`, `topology.simulate`, ..."""


@pytest.mark.parametrize("package", PARTS)
def test_imports_between_the_folders_of_a_package_point_one_way(package: str) -> None:
    """Those for type checkers only are left out; those within functions are not."""
    depth = package.count(".") + 1
    between = defaultdict(list)
    for importer, target, each in imports_between_modules():
        if not each.is_typing and all(name.startswith(f"{package}.") for name in (importer, target)):
            here, there = importer.split(".")[depth], target.split(".")[depth]
            if here != there:
                between[here, there].append(str(each))
    wrong = [
        f"{' and '.join(cycle)} import each other:\n"
        + "\n".join(
            f"  {text}" for (here, there), told in between.items() if {here, there} <= {*cycle} for text in told
        )
        for cycle in cycles(between)
    ]
    assert not wrong, f"in {package}:\n" + "\n".join(wrong)


def test_the_packages_with_folders_are_found() -> None:
    assert {"openclust.broker", "openclust.cluster", "openclust.shell", "openclust.bench", "openclust.cli"} <= {*PARTS}
    assert {"topology", "topology.simulate"} <= {*PARTS}


def test_no_modules_import_each_other() -> None:
    found = cycles(
        (importer, target)
        for importer, target, each in imports_between_modules()
        if not each.is_typing and not each.is_lazy
    )
    assert not found, found


def test_modules_import_each_other_for_type_checkers_no_more_than_they_did() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for cycle in cycles((importer, target) for importer, target, each in imports_between_modules() if not each.is_lazy):
        for module in cycle:
            found[layer_of(module)].append(module)
    for layer, names in found.items():
        most = MODULES_IN_TYPING_CYCLES_MAX.get(layer, 0)
        assert len(names) <= most, f"{layer}: {len(names)} modules in import cycles, {most} at most: {', '.join(names)}"


def test_a_cycle_is_found_however_long_it_is() -> None:
    assert cycles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]) == [["a", "b", "c"]]
    assert cycles([("a", "b"), ("b", "c"), ("a", "c")]) == []


def test_no_folder_has_more_files_than_can_be_read_at_a_glance() -> None:
    counts = Counter(file.parent for file in sources() if file.name != "__init__.py")
    wrong = [f"{folder.relative_to(ROOT)}: {count} files" for folder, count in counts.items() if count > FILES_MAX]
    assert not wrong, f"more than {FILES_MAX}: {', '.join(wrong)}"


def test_the_page_on_the_house_says_of_every_folder_what_is_in_it() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    told = set(re.findall(r"(?m)^\| `((?:openclust|topology)[\w/]*)` \| \S", page))
    folders = {str(file.parent.relative_to(ROOT)) for file in sources() if file.name != "__init__.py"}
    assert told == folders - {"openclust"}


def test_no_two_classes_have_one_name() -> None:
    counts = Counter(
        node.name for file in sources() for node, _, _ in statements_of(tree_of(file)) if isinstance(node, ast.ClassDef)
    )
    twice = {name for name, count in counts.items() if count > 1}
    assert not twice, f"two classes each: {', '.join(sorted(twice))}; rename the later one"


def named_types(tree: ast.Module) -> Iterator[str]:
    """The classes of a module, and the types that it gives a name: `Done = Callable[[Any], None]`."""
    for node in tree.body:
        match node:
            case ast.ClassDef():
                yield node.name
            case ast.AnnAssign(target=ast.Name(name)) | ast.Assign(targets=[ast.Name(name)]):
                if re.fullmatch(r"_?[A-Z][A-Za-z]*[a-z][A-Za-z]*", name):
                    yield name


def test_no_class_and_no_named_type_of_the_layers_has_the_name_of_another() -> None:
    """A reader of the core, the cluster and the shell meets all of these in one day; tools are read for themselves."""
    files = [file for file in sources() if layer_of(module_of(file)) in LAYERS]
    counts = Counter(name for file in files for name in named_types(tree_of(file)))
    twice = [name for name, count in counts.items() if count > 1]
    assert not twice, f"two types each: {', '.join(sorted(twice))}; rename the more special one"


def test_a_named_type_is_found_and_a_constant_is_not() -> None:
    source = "Done = Callable[[Any], None]\n_End: TypeAlias = int\nclass Queue: ...\nMAX = 3\nname = 'x'\n_X = 1"
    assert list(named_types(ast.parse(source))) == ["Done", "_End", "Queue"]


def io_in(file: Path, tree: ast.Module) -> Iterator[str]:
    """What in a module touches the world: imports, builtins, and clocks of `datetime`."""
    place = file.relative_to(ROOT)
    for each in imports_of(file, tree):
        if each.module.split(".")[0] in IO_MODULES:
            yield f"{each}: wire, broker and cluster have no I/O, clock or chance of their own"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name) and function.id in IO_CALLS:
                yield f"{place}:{node.lineno}: calls {function.id}()"
            elif isinstance(function, ast.Attribute) and function.attr in CLOCK_CALLS and not node.args:
                yield f"{place}:{node.lineno}: reads a clock by .{function.attr}()"
        elif isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{place}:{node.lineno}: is asynchronous"


def test_wire_broker_and_cluster_do_no_io() -> None:
    files = [file for file in sources() if layer_of(module_of(file)) in SANS_IO]
    assert files, "the layers are where this test looks for them"
    wrong = [text for file in files for text in io_in(file, tree_of(file))]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio",
        "import os.path",
        "from time import monotonic",
        "def late():\n    import random",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from socket import socket",
        "import datetime\nnow = datetime.datetime.now()",
        "data = open('x').read()",
        "async def wait(): ...",
    ],
)
def test_io_is_found_wherever_it_hides(source: str) -> None:
    assert list(io_in(ROOT / "openclust" / "wire" / "x.py", ast.parse(source)))


def test_the_top_level_holds_only_what_belongs_there() -> None:
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line and line[0] != "!"]
    found = [path.name for path in sorted(ROOT.iterdir())]
    strange = [
        name
        for name in found
        if name not in TOP_LEVEL and not any(fnmatch.fnmatch(name, pattern) for pattern in ignored)
    ]
    assert not strange, f"not ours, or not listed in this test: {', '.join(strange)}"
