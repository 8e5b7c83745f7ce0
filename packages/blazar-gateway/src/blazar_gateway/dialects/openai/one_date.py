"""One ``created`` for all chunks of a stream: llama-server writes the time of each chunk, OpenAI that of the answer."""

import re

_NAME = b'"created":'
_FIELD = re.compile(rb'"created":\d+')
"""In a JSON string its quotes would carry backslashes."""


class OneDate:
    """One stream's date."""

    __slots__ = ("_first",)

    def __init__(self) -> None:
        self._first = b""

    def keep(self, frames: bytes) -> bytes:
        """Return whole frames with the date of the stream's first."""
        last = frames.rfind(_NAME)
        if last < 0:
            return frames
        if not self._first:
            found = _FIELD.search(frames)
            if found is None:
                return frames
            self._first = found[0]
        # Time goes on, so where the last frame has the first one's date all have.
        if frames.startswith(self._first, last) and not frames[last + len(self._first) :][:1].isdigit():
            return frames
        return _FIELD.sub(self._first, frames)
