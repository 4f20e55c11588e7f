"""What a layout of brokers does under a workload: a PySpark pipeline from a topology file to a report."""
