"""Any bytes at all on the socket: no exception, sensible frames, right accounts, and an unharmed neighbour."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.fuzz.choices import ByteChoices, DrawnChoices
from tests.fuzz.connection import main, run, run_seed
from tests.support.examples import examples, seeds


def test_clients_may_say_anything_in_any_order() -> None:
    for seed in seeds(60):
        run_seed(seed)


@examples(5, suppress=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example])
@given(st.data())
def test_what_hypothesis_has_clients_say_harms_nobody(data: DataObject) -> None:
    run(DrawnChoices(data))


@examples(50)
@given(st.binary(max_size=2_000))
def test_what_a_fuzzer_has_clients_say_harms_nobody(data: bytes) -> None:
    run(ByteChoices(data))


def test_a_seed_is_a_run() -> None:
    once: list[str] = []
    again: list[str] = []
    run_seed(1, once.append)
    run_seed(1, again.append)
    assert once == again and len(once) > 10


def test_a_failing_seed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(broker: object) -> None:
        raise AssertionError("on purpose")

    monkeypatch.setattr("tests.fuzz.connection.check_accounts", fail)
    with pytest.raises(AssertionError) as caught:
        run_seed(77)
    assert caught.value.__notes__ == ["repeat with: python -m tests.fuzz.connection --seed 77"]


def test_the_command_goes_from_seed_to_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.02", "--from-seed", "5"]) == 0
    assert capsys.readouterr().out.startswith("seeds 5 to ")


def test_without_atheris_the_command_says_so() -> None:
    try:
        import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: F401
    except ImportError:
        command = [sys.executable, "-m", "tests.fuzz.connection", "--atheris"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("error: atheris is not installed: ")
        assert "Traceback" not in done.stderr
    else:
        pytest.skip("atheris is installed")
