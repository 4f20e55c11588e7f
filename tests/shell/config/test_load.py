"""Where a value may be written, what overrides what, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclust.shell.config.load import FILE_BYTES_MAX, Given, line_of, lines_of, load, parse_setting
from openclust.shell.config.schema import Config, ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "broker.toml"


def loaded(file: Path, text: str, environ: dict[str, str] | None = None, **flags: Given) -> Config:
    file.write_text(text)
    given = {key.replace("__", "."): value for key, value in flags.items()}
    return load(
        file, environ={"OPENCLUST_CLUSTER_KEY": "k"} | (environ or {}), flags=given, files_required=False
    ).config


def problems(file: Path, text: str, environ: dict[str, str] | None = None, **flags: Given) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        loaded(file, text, environ, **flags)
    return caught.value.problems


def test_flags_win_over_the_environment_and_that_over_the_file(file: Path) -> None:
    text = "[listen]\nport = 1001\nbacklog = 1\n[limits]\nchannel_max = 7"
    environ = {"OPENCLUST_LISTEN_PORT": "1002", "OPENCLUST_LISTEN_BACKLOG": "2"}
    config = loaded(file, text, environ, listen__port=Given("1003", "--port", is_text=True))
    assert (config.listen.port, config.listen.backlog, config.limits.channel_max) == (1003, 2, 7)
    assert config.listen.host == "127.0.0.1"


def test_an_unknown_key_is_named_with_its_place_and_the_nearest(file: Path) -> None:
    (problem,) = problems(file, "[listen]\nhost = '::'\nprot = 1\n")
    assert problem == f"{file} line 3: unknown key 'prot' in section [listen]; did you mean 'port'?"


def test_a_key_of_another_section_is_sent_there(file: Path) -> None:
    (problem,) = problems(file, "frame_max = 5000\n")
    assert problem == f"{file} line 1: unknown key 'frame_max' at the top level; it belongs in [limits]"


def test_an_unknown_section_is_named_with_the_nearest(file: Path) -> None:
    (problem,) = problems(file, "\n[limit]\nframe_max = 5000\n")
    assert problem == f"{file} line 2: unknown section [limit]; did you mean 'limits'?"


def test_a_section_that_is_no_section_is_an_error(file: Path) -> None:
    (problem,) = problems(file, "listen = 5672\n")
    assert problem == f"{file} line 1: listen is a section; write [listen] above its keys"
    (problem,) = problems(file, "[[listen]]\nport = 1\n")
    assert "listen is a section" in problem


def test_a_syntax_error_has_line_and_column(file: Path) -> None:
    (problem,) = problems(file, "[listen]\nport = = 1\n")
    assert problem == f"{file} line 2, column 8: invalid value"
    (problem,) = problems(file, "[listen\n")
    assert problem.startswith(f"{file} line 1, column 8: ")


def test_all_problems_are_told_at_once(file: Path) -> None:
    text = "[listen]\nprot = 1\nport = 'x'\nbacklog = 0\n"
    found = problems(file, text, {"OPENCLUST_NOTHING": ""}, log__levle=Given("info", "--set", is_text=True))
    assert len(found) == 5


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("[listen]\nport = '5672'", "listen.port = '5672': wanted a whole number"),
        ("[listen]\nport = true", "listen.port = true: wanted a whole number"),
        ("[listen]\nport = 1.5", "listen.port = 1.5: wanted a whole number"),
        ("[listen]\nhost = 5", "listen.host = 5: wanted text in quotes"),
        ("[http]\nenabled = 1", "http.enabled = 1: wanted true or false"),
        ("[limits]\nmemory_high_watermark = 'a'", "wanted a number"),
        ("[tls]\nverify = 'requird'", "wanted one of 'none', 'optional', 'required'; did you mean 'required'?"),
        ("[log]\nlevel = 'INFO'", "did you mean 'info'?"),
        ("[auth]\nmechanisms = ['PLIAN']", "wanted a list of 'PLAIN', 'AMQPLAIN', 'EXTERNAL'"),
        ("[auth]\nmechanisms = 'PLAIN'", "wanted a list in brackets, such as ['PLAIN']"),
        ("[auth]\nmechanisms = 5", "wanted a list"),
        ("[tls]\ncert = 2020-01-01", "wanted text in quotes"),
    ],
)
def test_a_wrong_type_says_what_was_wanted(file: Path, line: str, wanted: str) -> None:
    (problem,) = problems(file, line + "\n")
    assert problem.startswith(f"{file} line 2: ")
    assert wanted in problem


@pytest.mark.parametrize("number", ["9" * 5_000, "0x" + "f" * 5_000])
def test_a_number_with_thousands_of_digits_is_an_error_like_any_other(file: Path, number: str) -> None:
    assert len(problems(file, f"[listen]\nport = {number}\n")) == 1


def test_text_from_the_environment_takes_the_type_of_its_key(file: Path) -> None:
    environ = {
        "OPENCLUST_HTTP_ENABLED": "False",
        "OPENCLUST_AUTH_MECHANISMS": "PLAIN, EXTERNAL",
        "OPENCLUST_LIMITS_MEMORY_HIGH_WATERMARK": "0.25",
        "OPENCLUST_LIMITS_FRAME_MAX": "8_192",
        "OPENCLUST_NAME": "5",
    }
    config = loaded(file, "", environ)
    assert not config.http.enabled
    assert config.auth.mechanisms == ("PLAIN", "EXTERNAL")
    assert config.limits.memory_high_watermark == 0.25
    assert config.limits.frame_max == 8192
    assert config.name == "5"


def test_empty_text_takes_back_an_optional_key(file: Path) -> None:
    text = "[tls]\nport = 5671\ncert = 'c'\nkey = 'k'\n"
    config = loaded(file, text, {"OPENCLUST_TLS_PORT": "", "OPENCLUST_TLS_CERT": ""})
    assert (config.tls.port, config.tls.cert) == (None, None)
    assert loaded(file, "[auth]\nusers_file = ''\n").auth.users_file is None


def test_an_unknown_variable_is_an_error_with_the_nearest(file: Path) -> None:
    (problem,) = problems(file, "", {"OPENCLUST_LISTEN_PROT": "1"})
    assert problem == "unknown environment variable OPENCLUST_LISTEN_PROT; did you mean OPENCLUST_LISTEN_PORT?"
    (problem,) = problems(file, "", {"OPENCLUST_FRAME_MAX": "1"})
    assert problem.endswith("did you mean OPENCLUST_LIMITS_FRAME_MAX?")


def test_variables_of_the_tests_and_of_kubernetes_are_passed_over(file: Path) -> None:
    environ = dict.fromkeys(
        [
            "OPENCLUST_TEST_URL",
            "OPENCLUST_CONFIG",
            "OPENCLUST_SERVICE_HOST",
            "OPENCLUST_SERVICE_PORT_AMQP",
            "OPENCLUST_PORT_5672_TCP_ADDR",
            "OPENCLUST_P1_PORT_5672_TCP",
        ],
        "x",
    )
    loaded(file, "", environ | {"OPENCLUST_PORT": "tcp://10.0.0.1:5672"})
    (problem,) = problems(file, "", {"OPENCLUST_PORT": "5673"})
    assert "OPENCLUST_LISTEN_PORT" in problem


def test_a_variable_with_a_wrong_value_is_named(file: Path) -> None:
    (problem,) = problems(file, "", {"OPENCLUST_LISTEN_PORT": "many"})
    assert problem == "OPENCLUST_LISTEN_PORT: listen.port = many: wanted a whole number"


def test_paths_in_a_file_are_relative_to_it_and_others_are_not(file: Path) -> None:
    config = loaded(file, "[auth]\nusers_file = 'users.json'\n[definitions]\nfile = '/d.json'\n")
    assert config.auth.users_file == str(file.parent / "users.json")
    assert config.definitions.file == "/d.json"
    config = loaded(file, "", {"OPENCLUST_AUTH_USERS_FILE": "users.json"})
    assert config.auth.users_file == "users.json"


def test_a_setting_is_split_at_its_first_equals_sign() -> None:
    assert parse_setting("name=a=b") == ("name", Given("a=b", "--set", is_text=True))
    with pytest.raises(ConfigError, match=r"wanted SECTION\.KEY=VALUE"):
        parse_setting("listen.port")


@pytest.mark.parametrize("setting", ["lisen.port=1", "listen.prot=1", "a.b.c=1", "=1", "listen=1", "port=1"])
def test_a_setting_of_an_unknown_key_is_an_error(file: Path, setting: str) -> None:
    key, given = parse_setting(setting)
    file.write_text("")
    with pytest.raises(ConfigError, match=r"--set .*unknown"):
        load(file, environ={"OPENCLUST_CLUSTER_KEY": "k"}, flags={key: given})


def test_a_cluster_key_must_come_from_somewhere(file: Path) -> None:
    with pytest.raises(ConfigError, match="no cluster key: give --cluster-key"):
        load(None, environ={})
    assert load(None, environ={}, cluster_key_required=False).config.cluster_key == ""


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load(tmp_path / "missing.toml", environ={})
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, environ={})
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# a\nname = '\xe4'\n")
    with pytest.raises(ConfigError, match="line 2: not UTF-8"):
        load(latin, environ={})
    marked = tmp_path / "marked.toml"
    for encoding, name in (("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16")):
        marked.write_text('cluster_key = "k"', encoding=encoding)
        with pytest.raises(
            ConfigError, match=rf"line 1, column 1: begins with the byte order mark \(BOM\) of {name}; save"
        ):
            load(marked, environ={})
    huge = tmp_path / "huge.toml"
    huge.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="at most"):
        load(huge, environ={})


def test_lines_are_found_in_tables_lists_of_tables_and_dotted_keys() -> None:
    lines = lines_of('a = 1\n[b."c.d"]\ne.f = 2\n[[g.h]]\ni = 3\n[[g.h]]\n[g.h.j]\nk = 4\n')
    assert lines[("a",)] == 1
    assert lines[("b", "c.d")] == 2
    assert lines[("b", "c.d", "e", "f")] == 3
    assert lines[("g", "h", "0", "i")] == 5
    assert lines[("g", "h", "1", "j", "k")] == 8
    assert line_of(lines, ("g", "h", "1", "other")) == 6
    assert line_of(lines, ("z",)) == 0
