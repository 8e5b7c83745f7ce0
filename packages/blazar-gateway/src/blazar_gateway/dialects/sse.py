"""Server-sent events as bytes: whole frames out of pieces that were cut anywhere."""

END = b"\n\n"

MAX_FRAME_BYTES = 16 << 20
"""A frame that is longer is given up as one; it is passed on in pieces rather than kept in memory."""


class FrameBuffer:
    """Keeps what is incomplete until the rest of it arrives.

    Frames end with an empty line. Lines may end with CR LF, which becomes LF. Bytes inside a frame are not looked at,
    so a character that was cut in two is whole again, and one that never was valid passes as it is.
    """

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> bytes:
        """Return the whole frames that ``data`` completes, or ``b""``; keep the remainder."""
        if self._rest:
            data = self._rest + data
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        found = data.rfind(END)
        if found < 0:
            if len(data) > MAX_FRAME_BYTES:
                self._rest = b""
                return data
            self._rest = data
            return b""
        end = found + 2
        if end == len(data):
            self._rest = b""
            return data
        self._rest = data[end:]
        return data[:end]

    def last(self) -> bytes:
        """Return what is left at the end of the stream as a frame, or ``b""``: the last empty line may be missing."""
        rest = self._rest.strip(b"\r\n")
        self._rest = b""
        return rest + END if rest else b""


def frame_start(frames: bytes, end: int) -> int:
    """Return where the frame starts that ends at offset ``end`` of ``frames``, which are whole; 0 for ``end`` 0."""
    before = frames.rfind(END, 0, max(0, end - 2))
    return before + 2 if before >= 0 else 0


def split_frames(frames: bytes) -> list[bytes]:
    """Return whole frames one by one, each with its end."""
    return [frame + END for frame in frames.split(END) if frame]


def data_of(frame: bytes) -> bytes:
    """Return the data of a frame: its ``data:`` lines without that word, joined; ``b""`` for a comment."""
    if frame.startswith(b"data: ") and frame.count(b"\n") == 2:
        return frame[6:-2]
    lines = []
    for line in frame.split(b"\n"):
        name, colon, value = line.partition(b":")
        if name == b"data" and colon:
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines)
