"""What Spark starts on this machine to do Python's part of the work: all that it needs is loaded before it is asked.

Spark's own loads in each worker anew, and pyspark from a zip, which Python then compiles every time.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from importlib.util import find_spec

NEEDED = ("pyspark.worker", "topology.simulate.clients.placement", "topology.simulate.queueing.queueing")
"""And with these pandas, numpy and pyarrow."""


def main() -> None:
    before = sys.path[:]
    sys.path[:] = [each for each in before if not each.endswith("pyspark.zip")]
    if find_spec("pyspark") is None:
        sys.path[:] = before
    for each in NEEDED:
        import_module(each)
    gc.freeze()  # what is here for good need not be looked at again in each worker
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
