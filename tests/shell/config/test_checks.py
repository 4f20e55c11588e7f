"""What values a configuration may hold, and that the example and the page about it tell the truth."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from openclust.broker.model.limits import Limits
from openclust.cli.broker.start import FLAGS
from openclust.shell.config.checks import RANGES
from openclust.shell.config.keys import KEYS
from openclust.shell.config.load import Given, load
from openclust.shell.config.schema import Config, ConfigError
from tests.support.paths import ROOT

EXAMPLE = ROOT / "conf" / "openclust.toml"
PAGE = ROOT / "docs" / "configuration.md"

# keys whose default is "not set" or depends on the machine: their lines in the example are examples
WITHOUT_DEFAULT = {key.dotted for key in KEYS.values() if key.default in (None, "")}


def configured(**settings: object) -> Config:
    """A configuration with `listen__port=1` and the like."""
    flags = {"cluster_key": Given("k", "test")}
    flags |= {key.replace("__", "."): Given(value, "test") for key, value in settings.items()}
    return load(environ={}, flags=flags, files_required=False).config


def problems(**settings: object) -> str:
    with pytest.raises(ConfigError) as caught:
        configured(**settings)
    return str(caught.value)


def test_defaults_serve_on_loopback_only() -> None:
    config = configured()
    assert (config.listen.host, config.listen.port) == ("127.0.0.1", 5672)
    assert config.tls.port is None
    assert config.http.host == "127.0.0.1"
    assert config.auth.guest_from_loopback_only
    assert config.limits == Limits()


def test_the_name_is_made_of_host_and_port() -> None:
    assert configured(listen__port=1234).name.endswith("-1234")
    assert configured(name="mine").name == "mine"


@pytest.mark.parametrize("key", sorted(RANGES))
def test_a_number_outside_its_range_is_refused_with_the_range(key: str) -> None:
    low, high = RANGES[key]
    for wrong in (low - 1, high + 1):
        text = problems(**{key.replace(".", "__"): wrong})
        assert f"test: {key} = {wrong}: allowed is {low} to {high}" in text


def test_every_limit_has_a_range_that_its_default_is_in() -> None:
    for field in msgspec.structs.fields(Limits):
        if field.type is int:
            low, high = RANGES[f"limits.{field.name}"]
            assert low <= field.default <= high


@pytest.mark.parametrize("watermark", [0, 0.4, 1, 2, 4_000_000_000])
def test_the_watermark_is_a_share_or_a_number_of_bytes(watermark: float) -> None:
    assert configured(limits__memory_high_watermark=watermark).limits.memory_high_watermark == watermark


@pytest.mark.parametrize("watermark", [-0.1, 1.5, float("nan"), float("inf")])
def test_a_watermark_that_is_neither_is_refused(watermark: float) -> None:
    assert "a share of the machine's memory" in problems(limits__memory_high_watermark=watermark)


def test_two_listeners_on_one_port_clash() -> None:
    text = problems(listen__port=7000, http__port=7000)
    assert "test: http.port = 7000: is the same port as test: listen.port = 7000" in text
    assert "tls.port" in problems(listen__port=7000, tls__port=7000, tls__cert="c", tls__key="k")
    assert "http.port" in problems(listen__port=7000, http__port=7000, http__host="0.0.0.0")
    assert "http.port" in problems(listen__port=7000, http__port=7000, listen__host="")
    assert "http.port" in problems(listen__port=7000, http__port=7000, listen__host="::1", http__host="::")
    assert "http.port" in problems(listen__port=7000, http__port=7000, listen__host="localhost")


def test_listeners_that_do_not_meet_may_have_one_port() -> None:
    configured(listen__port=7000, http__port=7000, http__host="127.0.0.2")
    configured(listen__port=7000, http__port=7000, http__host="::")
    configured(listen__port=7000, http__port=7000, listen__host="0.0.0.0", http__host="::1")
    configured(listen__port=7000, http__port=7000, http__enabled=False)
    configured(listen__port=0, http__port=0)


def test_tls_needs_a_certificate_a_key_and_who_signs_clients() -> None:
    text = problems(tls__port=5671, tls__verify="required")
    assert "needs tls.cert" in text
    assert "needs tls.key" in text
    assert "needs tls.ca" in text


def test_a_certificate_without_a_port_is_not_passed_over() -> None:
    assert "tls.port is not set, so TLS stays off" in problems(tls__cert="c.pem", tls__key="k.pem")


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "ä" * 128])
def test_a_cluster_key_fits_a_short_string_and_is_printable(key: str) -> None:
    assert "cluster_key" in problems(cluster_key=key)


@pytest.mark.parametrize("host", ["a b", "a\nb"])
def test_a_host_without_a_name_is_refused(host: str) -> None:
    assert "wanted a host name" in problems(listen__host=host)


def test_mechanisms_are_at_least_one_and_each_once() -> None:
    assert "at least one" in problems(auth__mechanisms=[])
    assert "at least one" in problems(auth__mechanisms=["PLAIN", "PLAIN"])
    assert "wanted a list of 'PLAIN'" in problems(auth__mechanisms=["DIGEST"])


def test_frames_before_login_are_no_larger_than_after() -> None:
    assert "at most limits.frame_max (5000)" in problems(limits__frame_max=5000, limits__frame_max_before_login=6000)


def test_files_that_are_named_must_be_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "users.json")
    flags = {"cluster_key": Given("k", "test"), "auth.users_file": Given(missing, "test")}
    with pytest.raises(ConfigError, match="no such file; make one with: openclust users add NAME --file"):
        load(environ={}, flags=flags)
    flags["auth.users_file"] = Given(str(tmp_path), "test")
    with pytest.raises(ConfigError, match="not a file"):
        load(environ={}, flags=flags)


def test_no_two_keys_share_an_environment_variable() -> None:
    assert len({key.variable for key in KEYS.values()}) == len(KEYS)


def test_the_example_has_every_key_and_its_values_are_the_defaults(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    shipped = load(EXAMPLE, environ={"OPENCLUST_CLUSTER_KEY": "k"})
    assert set(shipped.given) == {"cluster_key"}, "as shipped it sets nothing"

    file = tmp_path / "all.toml"
    file.write_text(re.sub(r"(?m)^#(\w+ = )", r"\1", text))
    loaded = load(file, environ={}, files_required=False)
    assert set(loaded.given) == set(KEYS)
    for key in set(KEYS) - WITHOUT_DEFAULT:
        section, _, name = key.rpartition(".")
        value = getattr(getattr(loaded.config, section) if section else loaded.config, name)
        assert value == KEYS[key].default, key


@pytest.mark.parametrize("path", sorted((ROOT / "conf").glob("*.toml")), ids=lambda path: path.name)
def test_every_example_is_right_but_for_the_files_it_names(path: Path) -> None:
    load(path, environ={"OPENCLUST_CLUSTER_KEY": "k", "OPENCLUST_NAME": "p1"}, files_required=False)


def rows_of_the_page() -> dict[str, list[str]]:
    rows = re.findall(r"(?m)^\| `([\w.]+)` \|(.*)\|$", PAGE.read_text())
    return {key: [cell.strip() for cell in rest.split(" | ")] for key, rest in rows}


def test_the_page_has_every_key_and_no_other() -> None:
    assert set(rows_of_the_page()) == set(KEYS)


@pytest.mark.parametrize("key", sorted(KEYS))
def test_the_page_tells_default_variable_and_flag_of_a_key(key: str) -> None:
    cells = rows_of_the_page()[key]
    assert cells[-1] == f"`{KEYS[key].variable}`"
    flag_of = {dotted: flag for flag, dotted in FLAGS.values()} | {"http.enabled": "--no-http"}
    if key.startswith("limits."):
        assert key not in flag_of
        low, high = RANGES.get(key, (0, 0))
        assert key not in RANGES or str(low) in cells[1]
        assert not re.search(r" to \d+$", cells[1]) or "^" in cells[1] or str(high) in cells[1]
    else:
        assert cells[-2] == f"`{flag_of.get(key, '--set')}`"
    if key not in WITHOUT_DEFAULT:
        default = msgspec.json.encode(KEYS[key].default).decode().replace(",", ", ")
        assert cells[0] == f"`{default}`"


def test_a_table_may_be_given_as_a_variable_or_flag_too() -> None:
    """Such keys wanted `<class 'openclust...Thresholds'>` there."""
    flags = {
        "cluster_key": Given("k", "--set", True),
        "topology.thresholds": Given("{primaries_max = 3}", "--set", True),
    }
    assert load(environ={}, flags=flags).config.topology.thresholds.primaries_max == 3
    loaded = load(environ={"OPENCLUST_CLUSTER_KEY": "k", "OPENCLUST_TOPOLOGY_NODES": '{sw = {kind = "router"}}'})
    assert loaded.config.topology.nodes["sw"].kind == "router"


@pytest.mark.parametrize("text", ["", "{", "{}\nx = 1", "[" * 5_000])
def test_what_is_no_table_is_one_line(text: str) -> None:
    flags = {"cluster_key": Given("k", "--set", True), "topology.thresholds": Given(text, "--set", True)}
    with pytest.raises(ConfigError, match=r"topology\.thresholds.*wanted a table or list as in TOML"):
        load(environ={}, flags=flags)
