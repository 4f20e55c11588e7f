"""What is measured in company."""

from __future__ import annotations

import pytest

from openclust.bench.calibration.fit import CostSample, fit
from openclust.bench.calibration.with_background_load import hop_us, row_in_company

COSTS = {
    "publish_us": 2.0,
    "delivery_us": 1.0,
    "relay_out_us": 1.0,
    "relay_in_us": 3.0,
    "relay_kb_us": 10.0,
    "company_turn_us": 80.0,
    "company_wait_us_per_ms": 3.0,
    "company_write_us": 5.0,
    "company_link_us": 20.0,
    "company_stack_us": 30.0,
}


def test_only_what_a_turn_a_write_and_a_link_cost_is_solved_for_again() -> None:
    alone = {"turn_us": 40.0, "write_us": 4.0, "publish_us": 2.0, "delivery_us": 1.0}
    rows = [
        CostSample(
            name=f"{burst} to {count}",
            counts={"turn_us": 1.0, "publish_us": burst, "delivery_us": count * burst, "write_us": count},
            us=80.0 + 2 * burst + count * burst + 5 * count,
        )
        for count in (1, 10)
        for burst in (1, 4)
    ]
    found = fit(list(map(row_in_company, rows)), alone)
    assert found == pytest.approx({"company_turn_us": 80.0, "company_write_us": 5.0})


def test_a_hop_is_what_is_left_of_a_copys_time_when_what_is_done_for_it_is_taken_off() -> None:
    waited = 3 * 2 + 3 * 3 * 2
    done = 80 + 2 + (20 + 1 + 1) + 80 + 3 + 1 + 1 + 5 + waited
    assert hop_us({**COSTS, "company_remote_us": done + 30 + 45}) == pytest.approx(45)
    assert hop_us({**COSTS, "company_remote_us": done}) == 0
