"""Counts publisher confirms, which a broker may send one by one, out of order, or many at once."""

from __future__ import annotations

from openclust.bench.client import frames
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.frames import ACK_FRAME, FrameCutter, ReceivedFrame


class ConfirmCounter:
    """Counts confirmed messages. `feed` it all that the publishing connection receives; it returns the other frames."""

    def __init__(self) -> None:
        self.confirmed = 0
        self.below = 0  # every tag up to this one is confirmed
        self._ahead: set[int] = set()
        self._rest = b""
        self._reader: FrameCutter | None = None

    def feed(self, data: bytes) -> list[ReceivedFrame]:
        """Bytes that are nothing but basic.ack frames, the usual case, are read at very little cost."""
        if self._reader is not None:
            return self._read_slowly(self._reader, data)
        if self._rest:
            data = self._rest + data
        whole = len(data) - len(data) % ACK_FRAME.size
        at = 0
        for _, _, size, class_id, method_id, tag, multiple, _ in ACK_FRAME.iter_unpack(memoryview(data)[:whole]):
            if size != 13 or class_id != 60 or method_id != 80:
                # Another frame came. From here on frames have different lengths and are cut one by one.
                self._reader = FrameCutter()
                return self._read_slowly(self._reader, data[at:])
            self._confirm(tag, multiple)
            at += ACK_FRAME.size
        self._rest = data[whole:]
        if self._rest and len(self._rest) >= 11 and self._rest[3:11] != b"\x00\x00\x00\x0d\x00\x3c\x00\x50":
            self._reader = FrameCutter()
            return self._read_slowly(self._reader, self._rest)
        return []

    def _read_slowly(self, reader: FrameCutter, data: bytes) -> list[ReceivedFrame]:
        others = []
        for frame in reader.feed(data):
            if frame.ids == frames.BASIC_ACK:
                self._confirm(int.from_bytes(frame.payload[4:12], "big"), frame.payload[12])
            elif frame.ids == frames.BASIC_NACK:
                raise BenchError("the broker refused a message (basic.nack): is a queue limit or an alarm in the way?")
            else:
                others.append(frame)
        return others

    def _confirm(self, tag: int, multiple: int) -> None:
        if multiple & 1:
            if tag > self.below:
                self.below = tag
                self._ahead = {one for one in self._ahead if one > tag}
        elif tag == self.below + 1:
            self.below = tag
        elif tag > self.below:
            self._ahead.add(tag)
        while self._ahead and self.below + 1 in self._ahead:
            self.below += 1
            self._ahead.discard(self.below)
        self.confirmed = self.below + len(self._ahead)
