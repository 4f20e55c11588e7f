"""Solving for costs, and what is written of them."""

from __future__ import annotations

import platform
from datetime import date

import msgspec
import pytest

from openclust.bench.calibration.calibrating import Calibrated, document, machine
from openclust.bench.calibration.fit import CostSample, Fitted, fit, fitted
from topology.simulate.input.calibration import Calibration, shipped

COSTS = {"turn_us": 50.0, "publish_us": 2.0, "delivery_us": 0.15, "write_us": 4.0}


def row(subscribers: int, burst: int, *, times: float = 1.0) -> CostSample:
    counts = {
        "turn_us": 1.0,
        "publish_us": burst,
        "delivery_us": subscribers * burst,
        "write_us": subscribers,
    }
    us = sum(count * COSTS[name] for name, count in counts.items())
    return CostSample(name=f"{burst} to {subscribers}", counts=counts, us=us * times)


ROWS = [row(subscribers, burst) for subscribers in (1, 100, 1_000) for burst in (1, 4, 16)]


def test_costs_that_made_the_rows_are_found_again() -> None:
    assert fit(ROWS) == pytest.approx(COSTS)


def test_a_row_that_something_disturbed_is_not_followed() -> None:
    found = fit([*ROWS, row(1, 4, times=2.0)])
    assert found == pytest.approx(COSTS, rel=0.05)


def test_what_is_known_is_not_solved_for() -> None:
    known = {"turn_us": 50.0, "publish_us": 2.0}
    assert fit(ROWS, known) == pytest.approx({"delivery_us": 0.15, "write_us": 4.0})


def test_no_cost_is_below_nothing() -> None:
    rows = [
        CostSample(name="one", counts={"a": 1.0, "b": 1.0}, us=10.0),
        CostSample(name="two", counts={"a": 1.0, "b": 2.0}, us=9.0),
        CostSample(name="three", counts={"a": 2.0, "b": 1.0}, us=21.0),
    ]
    found = fit(rows)
    assert found["b"] == 0.0
    assert found["a"] == pytest.approx(10.0, rel=0.1)


def test_rows_that_do_not_tell_costs_apart_say_so() -> None:
    rows = [
        CostSample(name="one", counts={"a": 1.0, "b": 1.0}, us=10.0),
        CostSample(name="two", counts={"a": 2.0, "b": 2.0}, us=20.0),
    ]
    with pytest.raises(ValueError, match="the rows do not tell b from the others"):
        fit(rows)


def test_each_row_is_shown_beside_what_the_costs_say_of_it() -> None:
    (shown,) = fitted([CostSample(name="x", counts={"a": 3.0}, us=10.0)], {"a": 4.0})
    assert (shown.measured_us, shown.fitted_us) == (10.0, 12.0)
    assert shown.error == pytest.approx(0.2)


def test_the_error_of_all_rows_is_the_root_of_their_mean_square() -> None:
    rows = [Fitted(name="a", measured_us=10, fitted_us=13), Fitted(name="b", measured_us=10, fitted_us=6)]
    assert Calibrated(costs={}, rows=rows).error == pytest.approx((0.5 * (0.3**2 + 0.4**2)) ** 0.5)


def test_a_simulation_reads_what_is_written() -> None:
    costs = {
        name: float(value)
        for name, value in msgspec.structs.asdict(shipped()).items()
        if name not in ("measured", "machine", "version")
    }
    read = msgspec.convert(document({**costs, "publish_us": 1.23456}), Calibration, strict=True)
    assert read.publish_us == 1.235
    assert read.topic_bytes == shipped().topic_bytes
    assert (read.measured, read.machine) == (date.today().isoformat(), machine())


def test_the_machine_is_told_without_its_name() -> None:
    assert platform.node() not in machine()
    assert "core" in machine() and "Python" in machine()
