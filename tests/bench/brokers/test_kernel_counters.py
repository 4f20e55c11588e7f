from __future__ import annotations

from openclust.bench.brokers.kernel_counters import sum_of_received

SAID = """\
0 0 127.0.0.1:5000 127.0.0.1:6000 users:(("python",pid=12,fd=7)) cubic bytes_sent:10 bytes_received:1000 segs_out:5
0 0 127.0.0.1:6000 127.0.0.1:5000 users:(("python",pid=123,fd=7)) cubic bytes_sent:1000 bytes_received:10 segs_out:5
0 0 127.0.0.1:5000 127.0.0.1:7000 users:(("python",pid=12,fd=8)) cubic bytes_received:234 segs_out:5
0 0 127.0.0.1:5000 127.0.0.1:7001 users:(("python",pid=12,fd=9)) cubic segs_out:5
"""


def test_only_the_connections_of_the_process_count() -> None:
    assert sum_of_received(SAID, 12) == 1234
    assert sum_of_received(SAID, 123) == 10


def test_a_process_without_connections_has_no_figure() -> None:
    assert sum_of_received(SAID, 1) is None
