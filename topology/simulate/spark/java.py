"""The Java that Spark would run on, and the check that it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from openclust.shell.config.schema import ConfigError

JAVA_MIN = 17
ANSWER_S = 30.0
WAY_OUT = "install one (apt-get install openjdk-17-jre-headless), or let JAVA_HOME name its folder"


def checked_java(environ: Mapping[str, str]) -> Path:
    """The Java that Spark would take. Raises ConfigError if Spark would find none, or one that is too old."""
    home = environ.get("JAVA_HOME", "")
    path = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH", os.defpath))
    where = f"JAVA_HOME is {home!r}" if home else "JAVA_HOME is not set"
    if path is None:
        raise ConfigError(f"Spark needs Java {JAVA_MIN} or later, and there is no java in PATH ({where}): {WAY_OUT}")
    try:
        found = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=ANSWER_S, check=True, env=dict(environ)
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "strerror", None) or "it does not answer to -version"
        text = f"Spark needs Java {JAVA_MIN} or later, and {path} cannot be run: {why} ({where}): {WAY_OUT}"
        raise ConfigError(text) from None
    told = version_in(found.stderr + found.stdout)
    if told is None or told[0] < JAVA_MIN:
        version = "a Java of unknown version" if told is None else f"Java {told[1]}"
        raise ConfigError(f"Spark needs Java {JAVA_MIN} or later, and {path} is {version} ({where}): {WAY_OUT}")
    return Path(path)


def version_in(answer: str) -> tuple[int, str] | None:
    """The main and the whole version in the output of `java -version`. Before Java 9 the main one is second: 1.8."""
    match = re.search(r'version "((?:1\.)?(\d+)[^"]*)"', answer)
    return None if match is None else (int(match[2]), match[1])
