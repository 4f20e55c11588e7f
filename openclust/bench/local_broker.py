"""An openclust of our own to measure: started for one run as its own process, on a free port."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from types import TracebackType

from openclust.bench.errors import BenchError
from openclust.bench.frames import PROTOCOL_HEADER
from openclust.bench.url import BrokerUrl

START_SECONDS = 20.0
STOP_SECONDS = 20.0


class LocalBroker:
    """A context manager: inside it the broker answers at `url` and is process `pid`."""

    def __enter__(self) -> LocalBroker:
        self.url = BrokerUrl(host="127.0.0.1", port=_free_port())
        self._log = tempfile.TemporaryFile()
        address = ["--host", self.url.host, "--port", str(self.url.port)]
        command = ["start", "--no-http", "--cluster-key", "bench", *address]
        # Its own session: Ctrl-C is for the bench, which then ends the broker when it has cleaned up.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "openclust", *command],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self.pid = self._process.pid
        try:
            self._wait_until_it_answers()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise BenchError(f"`openclust start` ended with {self._process.returncode}: {self._last_words()}")
            if _answers(self.url):
                return
            time.sleep(0.05)
        raise BenchError(f"`openclust start` did not answer at {self.url.address} within {START_SECONDS:.0f} s")

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def _answers(url: BrokerUrl) -> bool:
    """Whether an AMQP header is answered by a method frame."""
    try:
        with socket.create_connection((url.host, url.port), timeout=1.0) as sock:
            sock.sendall(PROTOCOL_HEADER)
            return sock.recv(1) == b"\x01"
    except OSError:
        return False
