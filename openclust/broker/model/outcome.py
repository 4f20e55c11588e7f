"""What became of a message, as bits: 0 where all who were given it took it, and its publisher need not wait."""

ON_OWN_DISK, IN_MEMORIES, ON_DISKS = 1, 2, 4
"""Where the journal's open batch must be before the publisher is told. The last two are half of the primaries'."""

PLACES = ON_OWN_DISK | IN_MEMORIES | ON_DISKS

REFUSED = 8
"""Somebody was full."""
