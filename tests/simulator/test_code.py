"""Seeds add up while the code is the same."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.simulator.code import digest_of

TEXT = "def one() -> int:\n    return 1\n"


def test_blank_lines_and_comments_are_no_other_code() -> None:
    same = "# Why.\n\n\ndef one() -> int:   \n    # Because.\n\n    return 1"
    assert digest_of([("a.py", TEXT)]) == digest_of([("a.py", same)])


def test_another_statement_name_or_indentation_is_other_code() -> None:
    others = [("a.py", TEXT.replace("1", "2")), ("b.py", TEXT), ("a.py", TEXT.replace("    ", "  "))]
    assert len({digest_of([("a.py", TEXT)]), *(digest_of([each]) for each in others)}) == 4


def test_a_sweep_says_which_code_it_ran() -> None:
    command = [sys.executable, "-m", "tests.simulator", "--elections", "--seeds", "0:2", "--steps", "20"]
    lines = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    said = [re.search(r"of brokers ([0-9a-f]{12}), simulator ([0-9a-f]{12})$", line.strip()) for line in lines]
    assert said[0] is not None and said[1] is not None, lines
    assert said[0].groups() == said[1].groups()
    assert said[0][1] != said[0][2]
