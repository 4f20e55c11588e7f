"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says more of the machine than of the code: a pause of it is no failure.
settings.register_profile("here", deadline=None, print_blob=True)
settings.load_profile("here")
