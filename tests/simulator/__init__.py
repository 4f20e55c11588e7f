"""Whole clusters on a fake network, clock and disk, all from one seed."""
