"""The `[cluster]` section."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclust.shell.config.addresses import (
    client_advertised,
    http_advertised,
    http_url,
    own_entry,
    peer_advertised,
    peer_listen,
    split_address,
    tls_advertised,
)
from openclust.shell.config.load import Given, load
from openclust.shell.config.schema import Config, ConfigError, HttpSection, TlsSection

TEXT = """
cluster_key = "k"
[cluster]
{extra}
[cluster.primaries.p1]
client = "127.0.0.1:5001"
peer = "127.0.0.1:5101"
[cluster.primaries.p2]
client = "127.0.0.1:5002"
peer = "127.0.0.1:5102"
http = "127.0.0.1:5202"
"""


def loaded(tmp_path: Path, name: str = "p1", extra: str = "", text: str = TEXT) -> Config:
    file = tmp_path / "cluster.toml"
    file.write_text(text.format(extra=extra))
    return load(file, environ={"OPENCLUST_NAME": name}).config


def test_a_primary_listens_where_its_entry_says(tmp_path: Path) -> None:
    config = loaded(tmp_path, "p2")
    assert (config.listen.host, config.listen.port) == ("127.0.0.1", 5002)
    assert (config.http.enabled, config.http.port) == (True, 5202)
    assert not loaded(tmp_path, "p1").http.enabled, "its entry has no address for it"


def test_a_name_that_is_not_on_the_list_is_refused_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'p9': not among cluster.primaries \(p1, p2\); choose with --name"):
        loaded(tmp_path, "p9")


@pytest.mark.parametrize(
    "wrong", ["127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:x", ":5", "", "h:5_6", "h: 5", "h:+5", "h:٥"]
)
def test_an_address_without_host_or_port_is_named_with_its_line(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"line 7: cluster.primaries.p1.peer: wanted HOST:PORT") as caught:
        loaded(tmp_path, text=TEXT.replace("127.0.0.1:5101", wrong))
    assert len(caught.value.problems) == 1


def test_wrong_ports_are_told_at_once_with_all_else_that_is_wrong(tmp_path: Path) -> None:
    text = TEXT.replace("127.0.0.1:5101", "127.0.0.1:0").replace("127.0.0.1:5002", "127.0.0.1:70000")
    text += 'pear = "x"\n[topology.secondaries.s1]\nclient = "s1.example"\n[limits]\nqueues_max = 0\n'
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text=text)
    told = [each.partition(": ")[0].rpartition("/")[2] + each.partition(":")[2] for each in caught.value.problems]
    assert [each.split(": ")[0] for each in told] == [
        "cluster.toml line 16 limits.queues_max = 0",
        "cluster.toml line 7 cluster.primaries.p1.peer",
        "cluster.toml line 12 cluster.primaries.p2.pear",
        "cluster.toml line 9 cluster.primaries.p2.client",
        "cluster.toml line 14 topology.secondaries.s1.client",
    ]


def test_a_file_of_all_primaries_may_say_where_they_listen(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(TEXT.format(extra='client_listen = "[::]:5672"'))
    assert load(file, environ={"OPENCLUST_NAME": "p1"}).config.listen.host == "::"
    assert load(file, environ={}, for_one_broker=False).config.cluster.client_listen == "[::]:5672"
    file.write_text(TEXT.format(extra='client_advertise = "p:5672"'))
    with pytest.raises(ConfigError, match=r"others are told what cluster\.primaries\.NAME\.client says"):
        load(file, environ={}, for_one_broker=False)


def test_two_listeners_with_one_address_are_found_before_they_clash(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"p2.peer = '127.0.0.1:5001': cluster.primaries.p1.client has this"):
        loaded(tmp_path, text=TEXT.replace("127.0.0.1:5102", "127.0.0.1:5001"))


def test_an_unknown_key_of_a_primary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cluster"):
        loaded(tmp_path, text=TEXT + 'pear = "127.0.0.1:1"\n')


def test_a_secret_comes_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("long and random\n")
    assert loaded(tmp_path, extra='secret_file = "secret"').cluster.secret == "long and random"


def test_a_secret_file_that_is_empty_or_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"secret_file = .*No such file"):
        loaded(tmp_path, extra='secret_file = "secret"')
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        loaded(tmp_path, extra='secret_file = "secret"')


def test_a_secret_twice_is_once_too_often(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with pytest.raises(ConfigError, match="given too"):
        loaded(tmp_path, extra='secret_file = "secret"\nsecret = "y"')


def test_an_ipv6_host_stands_in_brackets() -> None:
    assert split_address("[::1]:5672") == ("::1", 5672)


# -- secondaries


def secondary(*, environ: dict[str, str] | None = None, **settings: object) -> Config:
    """Who joins the primary of this machine, with `peer_listen="..."` and the like, and `listen__port=1`."""
    settings = {"join": ["127.0.0.1:5682"], **settings}
    flags = {
        key.replace("__", ".") if "__" in key else f"cluster.{key}": Given(value, "test")
        for key, value in settings.items()
        if value is not None
    }
    return load(environ={"OPENCLUST_CLUSTER_KEY": "k"} | (environ or {}), flags=flags).config


def problem_of_secondary(**settings: object) -> str:
    with pytest.raises(ConfigError) as caught:
        secondary(**settings)
    (problem,) = caught.value.problems
    return problem


def test_a_secondary_needs_only_an_address_to_join() -> None:
    config = secondary(listen__port=5701)
    assert config.cluster.join == ("127.0.0.1:5682",)
    assert config.name.endswith("-5701")
    assert own_entry(config) is None
    assert peer_listen(config) == ("127.0.0.1", 0)


def test_addresses_to_join_come_from_the_environment_too() -> None:
    config = secondary(join=None, environ={"OPENCLUST_CLUSTER_JOIN": "127.0.0.1:1, [::1]:2,"})
    assert config.cluster.join == ("127.0.0.1:1", "[::1]:2")
    assert secondary(join=None, environ={"OPENCLUST_CLUSTER_JOIN": ""}).cluster.join == ()


def test_a_list_of_addresses_stands_in_brackets() -> None:
    wanted = "wanted a list of text in brackets, such as ['127.0.0.1:1']"
    assert problem_of_secondary(join="127.0.0.1:1") == f"test: cluster.join = '127.0.0.1:1': {wanted}"
    assert "wanted a list of text in brackets" in problem_of_secondary(join=[5682])


def test_one_broker_is_no_primary_and_secondary_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, extra='join = ["127.0.0.1:5102"]')
    (problem,) = caught.value.problems
    assert "line 4: cluster.join = ['127.0.0.1:5102']: cluster.primaries.p1 names this broker" in problem


def test_a_secondary_may_share_the_primaries_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, name="s1", extra='join = ["127.0.0.1:5101"]')
    assert (config.listen.port, peer_listen(config)) == (5672, ("127.0.0.1", 0))


@pytest.mark.parametrize("wrong", ["127.0.0.1", "127.0.0.1:0", "127.0.0.1:x", ":5"])
def test_whom_to_join_has_host_and_port(wrong: str) -> None:
    assert "wanted HOST:PORT, as the primaries' peer addresses are" in problem_of_secondary(join=["127.0.0.1:1", wrong])
    assert "each address once" in problem_of_secondary(join=["127.0.0.1:1", "127.0.0.1:1"])


def test_a_secondary_tells_where_it_listens_unless_told_otherwise() -> None:
    config = secondary()
    assert peer_advertised(config, ("127.0.0.1", 4711)) == "127.0.0.1:4711"
    assert client_advertised(config, ("::1", 5672)) == "[::1]:5672"
    config = secondary(
        listen__host="0.0.0.0",
        peer_listen="0.0.0.0:5682",
        peer_advertise="s1.peers:1",
        client_advertise="s1.clients:2",
    )
    assert peer_listen(config) == ("0.0.0.0", 5682)
    assert peer_advertised(config, ("0.0.0.0", 5682)) == "s1.peers:1"
    assert client_advertised(config, ("0.0.0.0", 5672)) == "s1.clients:2"


def test_a_secondary_tells_where_its_api_is(tmp_path: Path) -> None:
    assert http_advertised(secondary(http__port=80)) == "http://127.0.0.1:80"
    assert http_advertised(secondary(http__enabled=False)) == ""
    every = secondary(http__host="0.0.0.0", http__port=80, client_advertise="s1.clients:2")
    assert http_advertised(every) == "http://s1.clients:80", "where its clients reach it"
    assert http_advertised(secondary(listen__host="10.0.0.2")) == "", "it serves the API for its own machine only"
    assert http_advertised(loaded(tmp_path, "p2")) == "http://127.0.0.1:5202"
    safe = HttpSection(port=80, tls_cert="cert.pem", tls_key="key.pem", path_prefix="/mq")
    assert http_url(safe) == "https://127.0.0.1:80/mq"
    assert http_url(safe, "p1.example.com:443") == "https://p1.example.com:443/mq"


def test_a_primary_tells_what_its_entry_says_wherever_it_listens(tmp_path: Path) -> None:
    config = loaded(tmp_path, extra='client_listen = "0.0.0.0:5301"\npeer_listen = "[::]:5401"')
    assert (config.listen.host, config.listen.port) == ("0.0.0.0", 5301)
    assert peer_listen(config) == ("::", 5401)
    assert peer_advertised(config, ("::", 5401)) == "127.0.0.1:5101"
    assert client_advertised(config, ("0.0.0.0", 5301)) == "127.0.0.1:5001"
    assert peer_listen(loaded(tmp_path)) == ("127.0.0.1", 5101)


def test_a_cluster_of_one_accepts_no_peers() -> None:
    assert peer_listen(secondary(join=None)) is None


@pytest.mark.parametrize("key", ["peer", "client"])
def test_what_others_are_told_of_a_primary_stands_in_its_entry(tmp_path: Path, key: str) -> None:
    with pytest.raises(ConfigError, match=f"others are told what cluster.primaries.p1.{key} says; write it there"):
        loaded(tmp_path, extra=f'{key}_advertise = "127.0.0.1:1"')


def test_a_secondary_has_its_clients_where_any_broker_has() -> None:
    assert "set listen.host and listen.port" in problem_of_secondary(client_listen="127.0.0.1:1")


@pytest.mark.parametrize("key", ["peer_listen", "peer_advertise", "client_advertise"])
def test_own_addresses_have_host_and_port(key: str) -> None:
    assert problem_of_secondary(**{key: "5682"}) == f"test: cluster.{key} = '5682': wanted HOST:PORT"


def test_only_a_secondary_may_have_any_free_port_for_peers(tmp_path: Path) -> None:
    assert peer_listen(secondary(peer_listen="127.0.0.2:0")) == ("127.0.0.2", 0)
    with pytest.raises(ConfigError, match=r"peer_listen = .*wanted HOST:PORT"):
        loaded(tmp_path, extra='peer_listen = "127.0.0.1:0"')


@pytest.mark.parametrize("every", ["0.0.0.0", "::", ""])
def test_nobody_is_told_every_address_of_a_machine(every: str) -> None:
    assert "say with cluster.client_advertise" in problem_of_secondary(listen__host=every)
    secondary(listen__host=every, client_advertise="s1:1")
    if every:
        assert "say with cluster.peer_advertise" in problem_of_secondary(peer_listen=f"[{every}]:5682")


@pytest.mark.parametrize("far", ["p1:5682", "10.0.0.1:5682"])
def test_primaries_of_other_machines_are_told_an_address_that_they_can_dial(far: str) -> None:
    near = ["127.0.0.2:1", "localhost:1", "[::1]:1"]
    secondary(join=near)
    assert "peers on other machines cannot dial 127.0.0.1" in problem_of_secondary(join=[*near, far])
    secondary(join=[*near, far], peer_listen="10.0.0.2:5682")
    secondary(join=[*near, far], peer_advertise="127.0.0.1:5682")


def test_tls_is_told_with_the_name_by_which_clients_know_the_broker() -> None:
    def told(**tls: object) -> str:
        return tls_advertised(Config(cluster_key="k", tls=TlsSection(**tls)), "b1.example:5672")  # type: ignore[arg-type]

    assert told() == ""
    assert told(port=5671) == "b1.example:5671"
    assert told(port=5671, host="0.0.0.0") == "b1.example:5671"
    assert told(port=5671, host="secure.example") == "secure.example:5671"
