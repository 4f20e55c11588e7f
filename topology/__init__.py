"""Cluster files as graphs: rules that check them, what a cluster survives, drawings."""
