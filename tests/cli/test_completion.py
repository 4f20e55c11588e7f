"""`openclust completion`, and what it completes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from openclust.cli.main import openclust


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_this_program(shell: str) -> None:
    result = CliRunner().invoke(openclust, ["completion", shell], prog_name="openclust")
    assert result.exit_code == 0
    assert f"_OPENCLUST_COMPLETE={shell}_complete" in result.stdout


def complete(*words: str) -> tuple[list[str], str]:
    """What bash is offered for the last word, and the large libraries that it cost."""
    code = """
import sys
from openclust.cli.main import openclust
try:
    openclust.main([], prog_name="openclust")
finally:
    print(sorted({"aiohttp", "pyspark", "networkx", "rich", "asyncio", "sqlite3"} & set(sys.modules)), file=sys.stderr)
"""
    line = " ".join(("openclust", *words))
    told = {"_OPENCLUST_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=os.environ | told, capture_output=True, text=True, timeout=60)
    return [each.partition(",")[2] for each in done.stdout.split()], done.stderr


def test_commands_subcommands_and_options_are_completed_without_loading_what_they_need() -> None:
    assert complete("s") == (["start", "status", "step-down", "store", "simulate"], "[]\n")
    assert complete("queues", "p") == (["purge"], "[]\n")
    assert complete("queues", "list", "--j") == (["--json"], "[]\n")
