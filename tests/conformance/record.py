"""Ask a RabbitMQ all questions, and write the shapes of its answers.

`python -m tests.conformance.record AMQP_PORT HTTP_PORT`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.conformance.routes import questions
from tests.conformance.scene import Broker, scene
from tests.conformance.shapes import shape_of

SHAPES = Path(__file__).with_name("shapes.json")


def recorded(broker: Broker) -> dict[str, Any]:
    """The status and the shape of each answer, by the question's name."""
    found = {}
    with scene(broker) as made:
        for question in questions(made):
            status, body = broker.call(question.method, question.path, question.body)
            found[question.name] = {"status": status, "shape": shape_of(body) if body is not None else {}}
    return found


def main() -> None:
    amqp, http = (int(port) for port in sys.argv[1:3])
    found = recorded(Broker(("127.0.0.1", amqp), ("127.0.0.1", http)))
    SHAPES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(found)} answers recorded in {SHAPES.name}")


if __name__ == "__main__":
    main()
