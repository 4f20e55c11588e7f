"""What `--master` may say."""

from __future__ import annotations

import socket
import time

import pytest

from openclust.shell.config.schema import ConfigError
from topology.simulate.spark.master import check_master, is_local, is_loopback, threads_of


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]", "k8s://https://10.0.0.1:6443"])
def test_what_spark_takes_is_taken(master: str) -> None:
    check_master(master, {})


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("lokal", "--master 'lokal' is none that Spark knows: wanted local[N], local[*], spark://HOST:PORT"),
        ("", "is none that Spark knows"),
        ("local[x]", "is none that Spark knows"),
        ("local[0]", "1 to 1024 threads"),
        ("mesos://x:5050", "is none that Spark knows"),
        ("spark://nowhere", "such as spark://spark.example:7077"),
        ("spark://:7077", "such as spark://spark.example:7077"),
        ("spark://host:99999", "such as spark://spark.example:7077"),
        ("spark://host:x", "such as spark://spark.example:7077"),
        ("yarn", "HADOOP_CONF_DIR"),
    ],
)
def test_what_is_wrong_with_a_master_is_told(master: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_master(master, {})
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_yarn_needs_its_settings() -> None:
    check_master("yarn", {"HADOOP_CONF_DIR": "/etc/hadoop"})


@pytest.mark.sockets
def test_nobody_there_is_told_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"no Spark master there \(Connection refused\): start one .* or leave out"):
        check_master("spark://127.0.0.1:1", {})
    assert time.monotonic() - began < 6


@pytest.mark.sockets
def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{there.getsockname()[1]}", {})


def test_a_local_master_is_known_with_its_threads() -> None:
    assert is_local("local[2]") and not is_local("spark://127.0.0.1:7077") and not is_local("local-cluster[1,1,1]")
    assert (
        is_loopback("spark://127.0.0.1:7077") and not is_loopback("spark://10.0.0.1:7077") and not is_loopback("yarn")
    )
    assert [threads_of(each, 8) for each in ("local", "local[3]", "local[*]", "yarn")] == [1, 3, 8, None]
