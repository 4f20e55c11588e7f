"""Cluster files as graphs: what is wrong with one, what it survives, and what it looks like."""
