"""Loads the configuration: defaults, then the TOML file, then the environment, then flags; each overrides the former.

Whatever is wrong is told in one ConfigError that names the key, the place it was written (file and line, variable,
flag) and what would be right.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from openclust.shell.config.addresses import placed
from openclust.shell.config.checks import (
    ADDRESS_KEYS,
    check_files,
    check_values,
    cluster_problems,
    settings_problems,
    unused_address,
)
from openclust.shell.config.keys import (
    ENV_PREFIX,
    KEYS,
    PATHS,
    SECTIONS,
    Key,
    KeyPath,
    Problems,
    WrongType,
    convert,
    convert_nested,
    convert_text,
    did_you_mean,
    is_nested,
    nearest,
)
from openclust.shell.config.schema import Config, ConfigError

SECRET_BYTES_MAX = 4_096

FILE_BYTES_MAX = 16 * 1_048_576
"""Enough for the entries of a hundred thousand brokers."""

# A file in another encoding begins with a byte order mark, which editors do not show.
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "UTF-8", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}

# Environment variables of the command line and of the tests, which are no keys of the configuration.
OTHER_VARIABLES = frozenset({"OPENCLUST_CONFIG", "OPENCLUST_PASSWORD", "OPENCLUST_TEST_URL"})

# Kubernetes sets these in every container for a service named openclust or openclust-something.
_KUBERNETES = re.compile(r"OPENCLUST_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")


# tomllib does not tell the lines of keys, so they are found in the text. They are a help in messages, and may be wrong.
_KEY = r"""(?:[\w-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEYS = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_TABLE = re.compile(rf"\s*(\[\[?)\s*({_KEYS})\s*\]")
_VALUE = re.compile(rf"\s*({_KEYS})\s*=")


class Given(msgspec.Struct, frozen=True):
    """A value and the place it was written. `is_text`: it came as text and takes the type of its key.

    `source` and `lines` are of a value that came from a file, to tell the places within it.
    """

    value: Any
    place: str
    is_text: bool = False
    source: str = ""
    lines: dict[KeyPath, int] = {}

    def place_within(self, path: KeyPath) -> str:
        line = line_of(self.lines, path)
        return f"{self.source} line {line}" if line else self.source or self.place


class Loaded(msgspec.Struct, frozen=True):
    """A configuration, and for each key that is not at its default the place that set it.

    `is_written`: the file has a key or a section, though it may be of comments only. `unused` tells of keys in it that
    other brokers may go by, and this one does not.
    """

    config: Config
    given: dict[str, Given]
    is_written: bool = True
    unused: tuple[str, ...] = ()

    def told(self, key: str) -> str:
        return _told(key, self.given)


def load(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str],
    flags: Mapping[str, Given] | None = None,
    cluster_key_required: bool = True,
    files_required: bool = True,
    for_one_broker: bool = True,
    content: bytes | None = None,
) -> Loaded:
    """Put the configuration together, or raise ConfigError with every problem found.

    `flags` are by dotted key (`listen.port`). With `files_required` the files it names must be readable. Without
    `for_one_broker` it is looked at as all brokers' file: nobody needs to be the one that starts with it. `content` is
    what stands in the file, where it was read already (from standard input).
    """
    problems: list[str] = []
    given: dict[str, Given] = {}
    is_written = True
    if path is not None:
        document, lines = read_toml(Path(path), content=content)
        is_written = bool(document)
        given.update(_from_file(Path(path), document, lines, problems))
    given.update(_from_environment(environ, problems))
    given.update(_known(flags or {}, problems))

    values: dict[str, dict[str, Any]] = {section: {} for section in ("", *SECTIONS)}
    wrong_within: list[str] = []
    for dotted, one in given.items():
        key = KEYS[dotted]
        if is_nested(key.type):
            within: Problems = []
            try:
                value = toml_value(one.value) if one.is_text else one.value
            except (ValueError, RecursionError):
                problems.append(f"{_told(dotted, given)}: wanted a table or list as in TOML, such as '{{}}' or '[]'")
                continue
            converted = convert_nested(key.type, value, within)
            if not within:
                values[key.section][key.name] = converted
            wrong_within += [_told_within(one, (*dotted.split("."), *path), text) for path, text in within]
            continue
        try:
            values[key.section][key.name] = (convert_text if one.is_text else convert)(key, one.value)
        except WrongType as wrong:
            problems.append(f"{_told(dotted, given)}: {wrong}")
    config = _build(values)
    problems += check_values(
        config, lambda key: _told(key, given), cluster_key_required=cluster_key_required and "cluster_key" not in given
    )
    if "cluster_key" in given and config.cluster_key == "":
        problems.append(f"{_told('cluster_key', given)}: must not be empty")
    if files_required:
        problems += check_files(config, lambda key: _told(key, given))
    if wrong_within:
        problems += wrong_within
    else:
        problems += cluster_problems(config, lambda key: _told(key, given), for_one_broker=for_one_broker)
    if "topology.settings" in given:
        own = given["topology.settings"]
        problems += [_told_within(own, path, text) for path, text in settings_problems(config)]
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    if not for_one_broker:
        return Loaded(with_secret(config) if files_required else config, given, is_written)
    unused = {key: problem for key in ADDRESS_KEYS if key in given and (problem := unused_address(config, key))}
    # A key in a file may be meant for other brokers with the same file; a flag is for this broker.
    refused = [f"{_told(key, given)}: {problem}" for key, problem in unused.items() if not given[key].source]
    if refused:
        raise ConfigError(*refused)
    config = with_secret(config) if files_required else config
    told = tuple(f"{_told(key, given)}: {problem}" for key, problem in unused.items())
    return Loaded(placed(config), given, is_written, told)


def parse_setting(text: str) -> tuple[str, Given]:
    """Read the argument of a `--set section.key=value` flag, or raise ConfigError."""
    dotted, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set {text}: wanted SECTION.KEY=VALUE, such as listen.port=5673")
    return dotted.strip(), Given(value.strip(), "--set", is_text=True)


def _build(values: dict[str, dict[str, Any]]) -> Config:
    sections = {
        field.name: field.type(**values[field.name])
        for field in msgspec.structs.fields(Config)
        if field.name in SECTIONS
    }
    config = Config(**{"cluster_key": "", **values[""], **sections})
    if config.name:
        return config
    return msgspec.structs.replace(config, name=f"{os.uname().nodename}-{config.listen.port}")


def _told_within(one: Given, path: KeyPath, text: str) -> str:
    shown = ".".join(each if each.isprintable() and each else repr(each) for each in path)
    return f"{one.place_within(path)}: {shown}: {text}"


def _told(key: str, given: Mapping[str, Given]) -> str:
    one = given.get(key)
    if one is None:
        return f"{key} = {KEYS[key].default!r} (default)"
    value = one.value
    if isinstance(value, bool):
        shown = str(value).lower()
    elif isinstance(value, int) and abs(value) >= 2**64:
        shown = "(a huge number)"  # str() refuses numbers with very many digits
    elif isinstance(value, dict | list):
        shown = _shown(value)
    else:
        shown = str(value) if one.is_text and str(value).isprintable() else repr(value)
    return f"{one.place}: {key} = {shown}"


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # tables within tables without end, huge numbers
        return "..."


def read_toml(
    path: Path, what: str = "configuration file", *, content: bytes | None = None
) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """A file of ours and the lines of its keys, or ConfigError with what is wrong with it."""
    text = _text_of(path, what, _read(path, what) if content is None else content)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax(path, text, str(error))) from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except ValueError as error:  # a number with thousands of digits
        raise ConfigError(f"{path}: {error}") from None
    return document, lines_of(text)


def toml_value(text: str) -> Any:
    """The value after the `=` of a line of TOML; ValueError if there is none, or more than one."""
    document = tomllib.loads(f"value = {text}")
    if [*document] != ["value"]:
        raise ValueError("more than one value")
    return document["value"]


def _from_file(
    path: Path, document: dict[str, Any], lines: dict[KeyPath, int], problems: list[str]
) -> dict[str, Given]:
    given: dict[str, Given] = {}

    def take(section: str, name: str, value: Any) -> None:
        dotted = f"{section}.{name}" if section else name
        line = lines.get((section, name) if section else (name,))
        place = f"{path} line {line}" if line else str(path)
        if dotted in KEYS:
            if dotted in PATHS and isinstance(value, str) and value:
                value = str(path.parent / os.path.expanduser(value))
            given[dotted] = Given(value, place, source=str(path), lines=lines)
        else:
            problems.append(f"{place}: {_unknown(section, name)}")

    for name, value in document.items():
        if name not in SECTIONS and not isinstance(value, dict):
            take("", name, value)
        elif name not in SECTIONS:
            line = lines.get((name,))
            place = f"{path} line {line}" if line else str(path)
            problems.append(f"{place}: unknown section [{name}]{did_you_mean(name, SECTIONS)}")
        elif not isinstance(value, dict):
            line = lines.get((name,))
            place = f"{path} line {line}" if line else str(path)
            problems.append(f"{place}: {name} is a section; write [{name}] above its keys")
        else:
            for inner, inner_value in value.items():
                take(name, inner, inner_value)
    return given


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, Given]:
    by_variable = {key.variable: key for key in KEYS.values()}
    given: dict[str, Given] = {}
    for variable in sorted(v for v in environ if v.startswith(ENV_PREFIX)):
        key = by_variable.get(variable)
        if key is not None:
            given[key.dotted] = Given(_at_home(key, environ[variable]), variable, is_text=True)
        elif variable not in OTHER_VARIABLES and not _is_of_kubernetes(variable, environ[variable]):
            problems.append(f"unknown environment variable {variable}{_variable_hint(variable, by_variable)}")
    return given


def _known(flags: Mapping[str, Given], problems: list[str]) -> dict[str, Given]:
    known: dict[str, Given] = {}
    for dotted, one in flags.items():
        key = KEYS.get(dotted)
        if key is None:
            section, _, name = dotted.rpartition(".")
            if section and section not in SECTIONS:
                problems.append(f"{one.place} {dotted}: unknown section {section!r}{did_you_mean(section, SECTIONS)}")
            else:
                problems.append(f"{one.place} {dotted}: {_unknown(section, name)}")
        else:
            known[dotted] = Given(_at_home(key, one.value), one.place, one.is_text)
    return known


def _at_home(key: Key, value: Any) -> Any:
    return os.path.expanduser(value) if key.dotted in PATHS and isinstance(value, str) else value


def _variable_hint(variable: str, known: Mapping[str, Key]) -> str:
    name = variable.removeprefix(ENV_PREFIX).lower()
    meant = [v for v, key in sorted(known.items()) if key.name == name]  # the section was forgotten
    closest = nearest(variable, known)
    meant = meant or ([closest] if closest else [])
    return f"; did you mean {' or '.join(meant)}?" if meant else "; unset it"


def _is_of_kubernetes(variable: str, value: str) -> bool:
    if variable == "OPENCLUST_PORT":  # a person might write this one and mean the listener's
        return value.startswith(("tcp://", "udp://", "sctp://"))
    return _KUBERNETES.fullmatch(variable) is not None


def _unknown(section: str, name: str) -> str:
    """The message for an unknown key, with the key that was probably meant."""
    where = f"in section [{section}]" if section else "at the top level"
    here = [key.name for key in KEYS.values() if key.section == section]
    elsewhere = sorted(key.section for key in KEYS.values() if key.name == name and key.section)
    hint = did_you_mean(name, here)
    if not hint and elsewhere:
        hint = "; it belongs in " + " or ".join(f"[{s}]" for s in elsewhere)
    if not hint and not section and name not in here:
        hint = did_you_mean(name, SECTIONS)
    return f"unknown key {name!r} {where}{hint or '; its keys are ' + ', '.join(here)}"


def _read(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such {what}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: the {what} cannot be read: {reason}") from None


def _text_of(path: Path, what: str, data: bytes) -> str:
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: a {what} has at most {FILE_BYTES_MAX // 1_048_576} MiB")
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            raise ConfigError(
                f"{path} line 1, column 1: begins with the byte order mark (BOM) of {encoding}; "
                "save it as UTF-8 without BOM"
            )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} line {line}: not UTF-8 text") from None


def _syntax(path: Path, text: str, message: str) -> str:
    """The message for a syntax error. tomllib has the place in its text only: `Invalid value (at line 3, column 8)`."""
    match = re.fullmatch(r"(?s)(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", message)
    if match is None:
        return f"{path}: {message}"
    reason, line, column = match.groups()
    if line is None:
        line, column = str(text.count("\n") + 1), str(len(text) - text.rfind("\n"))
    return f"{path} line {line}, column {column}: {reason[:1].lower()}{reason[1:]}"


def with_secret(config: Config) -> Config:
    """The configuration with the secret from `cluster.secret_file`. ConfigError if that cannot be read."""
    path = config.cluster.secret_file
    if path is None:
        return config
    try:
        with open(path, encoding="utf-8") as file:
            secret = file.read(SECRET_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise ConfigError(f"cluster.secret_file = {path!r}: {reason}") from None
    if not secret:
        raise ConfigError(f"cluster.secret_file = {path!r}: is empty; write a long random text into it")
    return msgspec.structs.replace(config, cluster=msgspec.structs.replace(config.cluster, secret=secret))


def lines_of(text: str) -> dict[KeyPath, int]:
    """The lines of tables and keys, if they stand at the beginning of a line."""
    found: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _TABLE.match(line):
            table = _within(_split(match[2]), counts)
            if match[1] == "[[":
                found.setdefault(table, number)
                counts[table] = counts.get(table, -1) + 1
                table = (*table, str(counts[table]))
        elif match := _VALUE.match(line):
            path = (*table, *_split(match[1]))
            for end in range(len(table) + 1, len(path)):
                found.setdefault(path[:end], number)
            found.setdefault(path, number)
            continue
        else:
            continue
        for end in range(1, len(table) + 1):
            found.setdefault(table[:end], number)
    return found


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int:
    """The line of a key, or of the nearest table around it with a known line; 0 if there is none."""
    for end in range(len(path), 0, -1):
        if path[:end] in lines:
            return lines[path[:end]]
    return 0


def _within(path: KeyPath, counts: dict[KeyPath, int]) -> KeyPath:
    """`[a.b.c]` after `[[a.b]]` belongs to the last entry of that list."""
    there: KeyPath = ()
    for each in path[:-1]:
        there = (*there, each)
        if there in counts:
            there = (*there, str(counts[there]))
    return (*there, path[-1])


def _split(keys: str) -> KeyPath:
    return tuple(each[1:-1] if each[0] in "\"'" else each for each in re.findall(_KEY, keys))
