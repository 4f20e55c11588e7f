"""Costs alone and in company."""

from __future__ import annotations

import msgspec

from topology.simulate.input.calibration import shipped

MEASURED = msgspec.structs.replace(
    shipped(),
    stack_us=30.0,
    company_turn_us=80.0,
    company_wait_us_per_ms=9.0,
    company_write_us=6.0,
    company_link_us=25.0,
    company_stack_us=40.0,
    company_hop_us=17.0,
)


def test_in_company_turns_writes_links_and_the_stack_cost_what_they_cost_there() -> None:
    found = MEASURED.in_company()
    assert (found.turn_us, found.write_us, found.link_us, found.stack_us) == (80.0, 6.0, 25.0, 40.0)
    assert found.wait_us_per_ms == 9.0
    assert found.delivery_us == MEASURED.delivery_us
    assert MEASURED.hop_us == 17.0


def test_without_costs_in_company_all_is_as_alone() -> None:
    unknown = msgspec.structs.replace(MEASURED, company_turn_us=0.0)
    assert unknown.in_company() == unknown
    assert unknown.hop_us == 15.0
