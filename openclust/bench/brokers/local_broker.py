"""An openclust that the bench starts itself and measures: one process, on a free port."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

from openclust.bench.brokers.checkout import Checkout
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.frames import PROTOCOL_HEADER
from openclust.bench.client.url import BrokerUrl

START_SECONDS = 20.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.02


class StartedBroker:
    """A context manager. Inside it the broker answers at `url`, and its process id is `pid`.

    With `data_in` the broker has a data directory in that folder, which is deleted in the end. With `checkout` it is
    the openclust of another source tree, run by this Python.
    """

    def __init__(self, data_in: Path | None = None, checkout: Checkout | None = None) -> None:
        self._data_in, self._checkout = data_in, checkout
        self._data: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> StartedBroker:
        self.url = BrokerUrl(host="127.0.0.1", port=_free_port())
        self._log = tempfile.TemporaryFile()
        try:
            if self._data_in is not None:
                self._data = tempfile.TemporaryDirectory(prefix="openclust-bench-", dir=self._data_in)
            self.start()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    @property
    def data(self) -> Path:
        """The broker's data directory; there is one only with `data_in`."""
        assert self._data is not None
        return Path(self._data.name)

    def start(self, patience_s: float = START_SECONDS) -> None:
        """Start the process; returns when it answers clients. After `end` it has the same address and data again."""
        # A session of its own keeps Ctrl-C from the broker: the bench cleans up first, and then ends the broker.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "openclust", *self._arguments()],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            cwd=None if self._checkout is None else self._checkout.folder,
            env=None if self._checkout is None else self._checkout.environment(os.environ),
        )
        self.pid = self._process.pid
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise BenchError(f"`openclust start` ended with {self._process.returncode}: {self._last_words()}")
            if _answers(self.url):
                return
            time.sleep(POLL_SECONDS)
        raise BenchError(f"`openclust start` did not answer at {self.url.address} within {patience_s:.0f} s")

    def end(self, *, killed: bool) -> None:
        """End the process, with SIGKILL or with SIGTERM, and wait for it."""
        assert self._process is not None
        if killed:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _arguments(self) -> list[str]:
        found = ["start", "--no-http", "--cluster-key", "bench", "--host", self.url.host, "--port", str(self.url.port)]
        return found if self._data is None else [*found, "--set", f"cluster.data_dir={self._data.name}"]

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")

    def _leave(self) -> None:
        if self._process is not None:
            self.end(killed=False)
        self._log.close()
        if self._data is not None:
            self._data.cleanup()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


def _answers(url: BrokerUrl) -> bool:
    """Whether the broker answers an AMQP protocol header with a method frame."""
    try:
        with socket.create_connection((url.host, url.port), timeout=1.0) as sock:
            sock.sendall(PROTOCOL_HEADER)
            return sock.recv(1) == b"\x01"
    except OSError:
        return False
