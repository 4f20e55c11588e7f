"""The outcome of a publish, as bits. 0: all destinations took the message, and it can be confirmed at once."""

ON_OWN_DISK, IN_MEMORIES, ON_DISKS = 1, 2, 4
"""Where the journal's open batch must be before the confirm: on this broker's disk, in the memories of half of the
primaries, or on the disks of half of the primaries."""

PLACES = ON_OWN_DISK | IN_MEMORIES | ON_DISKS

REFUSED = 8
"""A queue was full and refused the message."""
