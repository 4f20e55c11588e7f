"""Durability levels of queues: which of its messages the journal records."""

NOTHING, OWN, SHARED = 0, 1, 2
"""No message; persistent messages, on this broker's own disk; or all messages, in the cluster's log."""
