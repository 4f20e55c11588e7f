"""A file of lines, written by a thread, so that the event loop does not wait for the disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

UNWRITTEN_BYTES_MAX = 16_777_216
STOP_WAIT_S = 2.0


class TraceFile:
    """`add` lines, `flush` at times, `stop` at the end. OSError if the file cannot be opened.

    Lines are appended to an existing file; `size` is its size once all lines are written. If a write fails, the thread
    calls `on_failure` with the reason, and all further lines are thrown away.
    """

    def __init__(self, path: str, on_failure: Callable[[str], None]) -> None:
        folder = os.path.dirname(path)
        if folder:
            os.makedirs(folder, exist_ok=True)
        # Not blocking: a pipe without a reader must be an error, and not stop the thread.
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o640)
        self._on_failure = on_failure
        self.size = os.fstat(self._fd).st_size
        self.lost = 0
        self._lines: list[bytes] = []
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        # One of these is written by the event loop only, the other by the thread only.
        self._given = self._done = 0
        self._has_failed = False
        if self.size and os.pread(self._fd, 1, self.size - 1) != b"\n":
            # The last broker that wrote it was killed in the middle of a line.
            self.add(b"\n")
        self._thread = threading.Thread(target=self._write_all, name="trace", daemon=True)
        self._thread.start()

    def add(self, line: bytes) -> None:
        """A line with its newline. If too many bytes wait for the disk, it is only counted, in `lost`."""
        if self._given - self._done > UNWRITTEN_BYTES_MAX:
            self.lost += 1
            return
        self._lines.append(line)
        self._given += len(line)
        self.size += len(line)

    def flush(self) -> None:
        """Give the added lines to the thread."""
        if self._lines:
            self._waiting.put(b"".join(self._lines))
            self._lines.clear()

    def stop(self, *, wait: bool = False) -> None:
        """Have the last lines written and the file closed. With `wait` this waits for the disk, up to `STOP_WAIT_S`."""
        self.flush()
        self._waiting.put(None)
        if wait:
            self._thread.join(STOP_WAIT_S)

    def _write_all(self) -> None:
        while (data := self._waiting.get()) is not None:
            if not self._has_failed:
                self._write(data)
            self._done += len(data)
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            self._has_failed = True
            self._cut(len(data) - len(left), data)
            self._on_failure(error.strerror or str(error))

    def _cut(self, written: int, data: bytes) -> None:
        """Cut off the beginning of a line that was not written as a whole."""
        part = written - (data.rfind(b"\n", 0, written) + 1)
        try:
            if part:
                os.ftruncate(self._fd, os.fstat(self._fd).st_size - part)
        except OSError:
            pass  # readers skip a broken line
