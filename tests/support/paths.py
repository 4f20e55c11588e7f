"""Where things are, wherever a test stands."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
RABBITMQ_DEFINITIONS = TESTS / "support" / "rabbitmq-3.10-definitions.json"
