"""All that is random in a run, from its seed: `random.Random`, with a cheaper `randint`."""

from __future__ import annotations

import random


class Chance(random.Random):
    def randint(self, a: int, b: int) -> int:
        """From a to b, both included. Its bias is far less than anybody would notice: ranges are short."""
        return a + int(self.random() * (b - a + 1))
