"""How much is kept of a queue."""

NOTHING, OWN, SHARED = 0, 1, 2
"""Nothing; its persistent messages, on this broker's own disk; or all of them, in the cluster's log."""
