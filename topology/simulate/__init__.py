"""Simulates a layout of brokers under a workload: a PySpark pipeline from a topology file to a report."""
