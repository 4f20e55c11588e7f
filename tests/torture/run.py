"""One run: brokers, applications, faults from a seed, peace, and what came of it."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.torture.applications import Applications
from tests.torture.brokers import Brokers
from tests.torture.interruption import Interruption
from tests.torture.leftovers import disk_source
from tests.torture.schedule import Episode, Step, episodes
from tests.torture.traffic import QUEUES, Outcome, Task
from tests.torture.verdict import Happened, Verdict, traces

START_WAIT_S = 30.0
WHOLE_WAIT_S = 40.0
PROGRESS_S = 10.0
TICK_S = 0.1


class Plan(msgspec.Struct, frozen=True):
    seed: int
    seconds: float
    kinds: list[str]
    drain_s: float
    is_quiet: bool = False


class Run:
    """`go`, once. All is ended and removed whatever happens; data and logs stay where they are asked for."""

    def __init__(self, plan: Plan, folder: Path, interruption: Interruption) -> None:
        self._plan = plan
        self._folder = folder
        self._interruption = interruption
        self._brokers = Brokers(folder, disk_source(os.getpid()))
        self._applications = Applications(self._brokers.network, folder)
        self._happened: list[Happened] = []
        self._problems: list[str] = []
        self._began = time.monotonic()
        self._said_at = self._began

    def go(self) -> Verdict:
        is_fine = False
        try:
            self._brokers.open()
            self._wait_until_whole(START_WAIT_S)
            if self._problems:
                raise AssertionError("; ".join(self._problems))
            self._applications.start(Task(self._brokers.urls, list(QUEUES), self._plan.drain_s))
            self._applications.wait_for_traffic(self._interruption.check)
            self._began = time.monotonic()
            self._strike(episodes(self._plan.seed, self._plan.kinds))
            self._say("peace")
            self._brokers.heal()
            healed_s = self._wait_until_whole(WHOLE_WAIT_S)
            outcome = self._drain()
            verdict = self._verdict(outcome, healed_s)
            is_fine = verdict.is_fine
            return verdict
        finally:
            self._applications.end()
            for name in self._brokers.close(keep_data=not is_fine):
                self._say(f"{name} did not end when it was told to, and was killed")

    def _strike(self, drawn: Iterable[Episode]) -> None:
        end = time.monotonic() + self._plan.seconds
        for episode in drawn:
            if time.monotonic() + episode.steps[-1].at_s > end:
                return
            began = time.monotonic()
            for step in episode.steps:
                self._wait(began + step.at_s)
                self._take(step)
            # Two faults may have met: one that is over may have left what the other one did.
            self._brokers.heal()
            self._wait(time.monotonic() + episode.peace_s)

    def _take(self, step: Step) -> None:
        if step.is_begin:
            at = time.monotonic()
            told = step.fault.begin(self._brokers)
            self._happened.append(Happened(step.kind, told, at))
            self._say(told)
        else:
            step.fault.end(self._brokers)
            open_ones = [each for each in self._happened if each.kind == step.kind and not each.ended]
            for each in open_ones:
                each.ended = time.monotonic()
            self._say(f"  {step.kind} is over")

    def _drain(self) -> Outcome:
        self._applications.stop_publishing()
        # The clients give up by themselves; longer than they take means that they hang.
        end = time.monotonic() + 3 * self._plan.drain_s + 120
        while self._applications.outcome is None and time.monotonic() < end:
            self._wait(time.monotonic() + TICK_S)
        if self._applications.outcome is None:
            raise AssertionError("the clients did not come to an end")
        return self._applications.outcome

    def _wait(self, until: float) -> None:
        """Let time pass, and look around."""
        while (now := time.monotonic()) < until and self._applications.outcome is None:
            self._interruption.check()
            self._applications.listen(min(until, now + TICK_S))
            self._look_at_processes()
            if now - self._said_at > PROGRESS_S:
                self._said_at = now
                seen = self._applications.progress
                self._say(f"  {seen.sent} sent, {seen.confirmed} confirmed, {seen.received} received")

    def _look_at_processes(self) -> None:
        for name, broker in self._brokers.by_name.items():
            if broker.is_meant_to_run and not broker.is_running:
                broker.is_meant_to_run = False
                text = f"{name} ended by itself with exit code {broker.exit_code}"
                if broker.disk is not None and broker.disk.is_full:
                    text += " (its disk is full)"
                self._say(text)
                self._problems.append(f"{text} at {time.monotonic() - self._began:.1f} s")

    def _wait_until_whole(self, within_s: float) -> float:
        """Until all follow one root: how long that took. Where it does not come, that is a problem, and told."""
        began = time.monotonic()
        while time.monotonic() - began < within_s:
            self._interruption.check()
            if self._brokers.is_whole():
                return time.monotonic() - began
            time.sleep(TICK_S)
        seen = {name: broker.ask() for name, broker in self._brokers.by_name.items()}
        told = {name: f"{each['role']}, root {each['root']}" if each else "no answer" for name, each in seen.items()}
        self._problems.append(f"not all follow one root within {within_s:.0f} s: {told}")
        return time.monotonic() - began

    def _verdict(self, outcome: Outcome, healed_s: float) -> Verdict:
        self._problems += traces(self._folder, self._brokers.by_name)
        return Verdict(
            seed=self._plan.seed,
            seconds=self._plan.seconds,
            faults=self._plan.kinds,
            began=self._began,
            wall_clock_offset_s=time.time() - time.monotonic(),
            happened=self._happened,
            outcome=outcome,
            problems=self._problems,
            whole_again_s=healed_s,
            disk_bytes={name: disk.used() for name, disk in self._brokers.disks.items()},
            folder=str(self._folder),
        )

    def _say(self, text: str) -> None:
        if not self._plan.is_quiet:
            with contextlib.suppress(OSError):
                print(f"{time.monotonic() - self._began:7.1f} s  {text}", file=sys.stderr, flush=True)
