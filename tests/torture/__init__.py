"""Real brokers on a real network, killed, stopped, cut off and filled up, and every confirmed message counted."""
