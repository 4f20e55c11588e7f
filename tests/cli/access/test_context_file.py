"""The file of contexts: where it is, who may read it, and that it says again what it was told."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.cli.access.context_file import (
    ClusterContext,
    ContextFile,
    as_toml,
    contexts_path,
    load_contexts,
    save_contexts,
)
from tests.support.examples import examples


def test_it_is_in_the_folder_for_configuration() -> None:
    assert contexts_path({"XDG_CONFIG_HOME": "/etc/mine"}) == "/etc/mine/openclust/contexts.toml"
    default = os.path.expanduser("~/.config/openclust/contexts.toml")
    assert contexts_path({}) == contexts_path({"XDG_CONFIG_HOME": "not/absolute"}) == default


def test_no_file_is_no_contexts(tmp_path: Path) -> None:
    assert load_contexts(str(tmp_path / "none")) == ContextFile()


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "openclust" / "contexts.toml"
    save_contexts(str(path), ContextFile(contexts={"prod": ClusterContext(urls=["http://h"])}))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o640)
    with pytest.raises(click.ClickException, match=r"others may read it.*chmod 600"):
        load_contexts(str(path))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("current = [", "no TOML"),
        ("[contexts.a]\nca_file = 'x'", "missing required field `urls`"),
        ("[contexts.a]\nurls = ['x']\npasword_file = 'y'", "unknown field `pasword_file`"),
    ],
)
def test_a_wrong_file_is_one_line_with_its_name(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "contexts.toml"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(click.ClickException) as raised:
        load_contexts(str(path))
    assert raised.value.message.startswith(str(path)) and problem in raised.value.message


@examples(20)
@given(
    st.dictionaries(
        st.text(),
        st.builds(ClusterContext, st.lists(st.text()), st.none() | st.text(), st.none() | st.text()),
        max_size=3,
    ),
    st.text(),
)
def test_whatever_is_written_is_read_again(contexts: dict[str, ClusterContext], current: str) -> None:
    file = ContextFile(current, contexts)
    document = tomllib.loads(as_toml(file))
    assert document.get("current", "") == current
    assert document.get("contexts", {}).keys() == contexts.keys()
    for name, each in contexts.items():
        kept = {"urls": each.urls, "password_file": each.password_file, "ca_file": each.ca_file}
        assert document["contexts"][name] == {key: value for key, value in kept.items() if value is not None}
