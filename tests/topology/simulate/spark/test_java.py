"""Which Java is taken, and what is said where there is none; `make test` gets one."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from openclust.shell.config.schema import ConfigError
from tests.support.paths import ROOT
from topology.simulate.spark.java import checked_java, version_in

OUR_PATH = os.pathsep.join(("/usr/bin", "/bin"))


def script(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def java(folder: Path, version: str, name: str = "java") -> Path:
    return script(folder, name, f"""echo 'openjdk version "{version}" 2025-01-01' >&2""")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', (17, "17.0.15")),
        ('java version "1.8.0_292"', (8, "1.8.0_292")),
        ('openjdk version "21" 2023-09-19', (21, "21")),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25-ea"', (25, "25-ea")),
        ("java: not today", None),
    ],
)
def test_the_version_is_read(answer: str, found: tuple[int, str] | None) -> None:
    assert version_in(answer) == found


def test_java_home_goes_before_the_path(tmp_path: Path) -> None:
    java(tmp_path / "new" / "bin", "17.0.1")
    java(tmp_path / "old", "11.0.2")
    checked_java({"JAVA_HOME": str(tmp_path / "new"), "PATH": str(tmp_path / "old")})
    with pytest.raises(ConfigError) as caught:
        checked_java({"PATH": str(tmp_path / "old")})
    assert str(caught.value) == (
        f"Spark needs Java 17 or later, and {tmp_path}/old/java is Java 11.0.2 (JAVA_HOME is not set): "
        "install one (apt-get install openjdk-17-jre-headless), or let JAVA_HOME name its folder"
    )


def test_none_at_all_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no java in PATH \(JAVA_HOME is not set\): install one"):
        checked_java({"PATH": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"cannot be run: No such file or directory \(JAVA_HOME is '/nowhere'\)"):
        checked_java({"JAVA_HOME": "/nowhere", "PATH": OUR_PATH})


def test_one_that_fails_is_told(tmp_path: Path) -> None:
    script(tmp_path, "java", "exit 3")
    with pytest.raises(ConfigError, match="cannot be run: it does not answer to -version"):
        checked_java({"PATH": str(tmp_path)})


def test_make_test_installs_one_as_root(tmp_path: Path) -> None:
    """apt-get is a stand-in that has the first package not, and the second."""
    later = java(tmp_path / "later", "21.0.1")
    script(tmp_path, "id", "echo 0")
    script(
        tmp_path,
        "apt-get",
        f'echo "$@" >> {tmp_path}/log; case "$*" in *default*) cp {later} {tmp_path};; *17*) exit 1;; esac',
    )
    done = make_java(tmp_path)
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "log").read_text()
    assert "install -qq -y --no-install-recommends openjdk-17-jre-headless" in log and "default-jre-headless" in log


def test_make_test_stops_with_the_command_for_others(tmp_path: Path) -> None:
    script(tmp_path, "id", "echo 1000")
    script(tmp_path, "apt-get", f"touch {tmp_path}/called")
    done = make_java(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("make test: Spark needs Java 17 or later, and there is no java in PATH")
    assert "apt-get install openjdk-17-jre-headless" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "called").exists()


def make_java(folder: Path) -> subprocess.CompletedProcess[str]:
    for tool in ("bash", "dirname", "env", "cp", "touch"):
        target = folder / tool
        target.symlink_to(next(p for p in (Path("/usr/bin", tool), Path("/bin", tool)) if p.exists()))
    environ = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")}
    return subprocess.run(
        [str(ROOT / ".ci" / "java"), sys.executable],
        env={**environ, "PATH": str(folder)},
        capture_output=True,
        text=True,
    )
