"""openclust: an AMQP 0-9-1 broker cluster in Python."""

__version__ = "0.1.0"
