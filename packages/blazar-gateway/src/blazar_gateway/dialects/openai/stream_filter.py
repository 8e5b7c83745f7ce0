"""An engine's stream as this client is to see it: the same bytes, with the few frames changed that must be.

Every stream is asked for with usage, because tokens are counted. What the client sees is nevertheless what the engine
would have sent to its own request:

* it asked for usage: one frame with an empty ``choices`` at the end, the sum over all choices and prompts, and usage
  nowhere else (llama-server sends one frame per choice; on text completions it has usage in each finish frame);
* it did not: no such frame. llama-server moves ``timings`` from the finish frame to the usage frame when usage is
  asked for; they are moved back, byte for byte.

Text and calls that an engine writes wrongly are repaired: see :mod:`~blazar_gateway.dialects.openai.delta_repair`.
``data: null``, which llama-server sends between several prompts, is left out. Reasoning gets its second name. An error
object gets OpenAI's members. Every other frame is the engine's own, and most are never looked at: one search per read
finds the frames that matter, and everything before the first of them is passed on as one slice.
"""

import orjson

from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.dialects.openai import engine_errors, reasoning
from blazar_gateway.dialects.openai.delta_repair import DeltaRepair
from blazar_gateway.dialects.openai.usage import UsageTally
from blazar_gateway.dialects.sse import END, FrameBuffer, data_of, frame_start, split_frames
from blazar_gateway.error_responses import Dialect, WireError, error_frame

_NULL = b"data: null\n\n"
_USAGE = b'"usage"'
_FINISH = b'"finish_reason":"'
_ROLE = b'{"role":"assistant","content":null}'
_DONE = b"[DONE]"
_TAIL = 1024
"""Bytes at a read's end within which the end marker stands; a comment or two may follow it."""
_DONE_LINE = b"[DONE]\n"
_ERROR = b'{"error"'
_HEAD = 16
"""Bytes within which a frame's end marker or error object begins."""


class StreamFilter:
    """One stream's state.

    Args:
        usage_asked: Whether the client asked for a usage frame.
        choices: ``n`` of the request.
        prompts: Prompts in the request.
        reasons: Whether the model may think; ``False`` spares looking for it.
        repair: Repairs what a chat's deltas say; ``None`` for text completions.

    Attributes:
        complete: Whether the engine's end marker has passed; without it a stream broke.
        error: The error that the engine put into the stream, or ``None``.
        tally: Usage seen so far.
    """

    __slots__ = (
        "_buffer",
        "_held",
        "_ordinary_bytes",
        "_pending",
        "_reasons",
        "_repair",
        "_several",
        "_several_prompts",
        "_usage_asked",
        "complete",
        "error",
        "tally",
    )

    def __init__(
        self,
        *,
        usage_asked: bool,
        choices: int = 1,
        prompts: int = 1,
        reasons: bool = True,
        repair: DeltaRepair | None = None,
    ) -> None:
        self._usage_asked = usage_asked
        self._reasons = reasons
        self._repair = repair
        self._several = choices * prompts > 1
        self._several_prompts = prompts > 1
        self._buffer = FrameBuffer()
        self._ordinary_bytes = 0
        # A finish frame at the end of a read: its timings may be in the frame that follows.
        self._held = b""
        # The frame that the client's usage frame is made of, once its usage must be sent before the end marker.
        self._pending: JsonObject | None = None
        self.complete = False
        self.error: WireError | None = None
        self.tally = UsageTally(choices=choices, prompts=prompts)

    def feed(self, data: bytes) -> bytes:
        """Return what can be sent after ``data`` was read: whole frames, or ``b""``."""
        frames = self._buffer.take(data)
        if self._several_prompts:
            frames = frames.replace(_NULL, b"")
        if self._repair is not None and frames:
            frames = self._repair.repair(frames)
        if not frames:
            return b""
        if self._reasons and reasoning.MARK in frames:
            frames = reasoning.name_twice(frames)
        start = self._first_of_interest(frames)
        if start:
            self._estimate_pieces(frames, start)
        if start == len(frames):
            return frames
        return frames[:start] + self._sift(self._held + frames[start:])

    def _estimate_pieces(self, frames: bytes, end: int) -> None:
        """Take the frames up to ``end`` into account for an answer that may never say how many tokens it had.

        Frames of one stream are of much the same length, so the last one's length tells their number; counting them
        would take longer than everything else here.
        """
        last = frame_start(frames, end)
        if not self._ordinary_bytes:
            # The first frame says whose turn it is, and nothing else.
            opening = frames.find(END) + 2
            self._ordinary_bytes -= opening if _ROLE in frames[:opening] else 0
        self._ordinary_bytes += end
        if frames.startswith(b"data:", last):
            self.tally.pieces = max(self.tally.pieces, self._ordinary_bytes // (end - last))

    def finish(self) -> bytes:
        """Return what is left to send when the engine has ended the stream in order.

        A stream that broke has nothing left: half a frame would spoil the error that follows, and a finish frame
        that is held has not been seen by the client.
        """
        last = self._buffer.last()
        if self._repair is not None and last:
            last = self._repair.repair(last)
        rest = self._held + last
        sent = self._sift(rest) if rest else b""
        return sent + self._held

    def _first_of_interest(self, frames: bytes) -> int:
        """Return where the first frame starts that has to be looked at, ``len(frames)`` if none has."""
        if self._held:
            return 0
        starts = [len(frames)]
        usage = frames.find(_USAGE)
        if usage >= 0:
            # The finish frame before it may have to take its timings.
            starts.append(frame_start(frames, frames.rfind(END, 0, usage) + 2))
        # Neither mark can stand in a text: there, quotes and line ends are escaped.
        error = frames.find(_ERROR)
        if error >= 0:
            starts.append(_frame_at(frames, error))
        done = frames.rfind(_DONE_LINE, max(0, len(frames) - _TAIL))
        if done >= 0:
            starts.append(_frame_at(frames, done))
        if not self._usage_asked:
            last = frame_start(frames, len(frames))
            if frames.find(_FINISH, last) >= 0:
                starts.append(last)
        return min(starts)

    def _sift(self, frames: bytes) -> bytes:
        out: list[bytes] = []
        for frame in split_frames(frames):
            if _DONE in frame[:_HEAD]:
                self.complete = True
                if self._pending is not None:
                    out.append(self._usage_frame(self._pending))
                    self._pending = None
                out.append(frame)
            elif _ERROR in frame[:_HEAD]:
                out.append(self._take_error(frame))
            elif _USAGE in frame:
                self._take_usage(frame, out)
            else:
                out.append(frame)
        self._held = b""
        if not self._usage_asked and out and _wants_timings(out[-1]):
            self._held = out.pop()
        return b"".join(out)

    def _take_usage(self, frame: bytes, out: list[bytes]) -> None:
        chunk = _object(frame)
        usage = chunk.get("usage") if chunk is not None else None
        if chunk is None or not isinstance(usage, dict):
            out.append(frame)
            return
        self.tally.add(usage)
        if chunk.get("choices"):
            if not self._usage_asked:
                out.append(frame)
                return
            del chunk["usage"]
            out.append(_frame(chunk))
            self._pending = {name: value for name, value in chunk.items() if name != "timings"}
        elif not self._usage_asked:
            if out and _wants_timings(out[-1]):
                out[-1] = _with_timings(out[-1], frame, chunk)
        elif self._several:
            self._pending = chunk
        else:
            out.append(frame)

    def _usage_frame(self, chunk: JsonObject) -> bytes:
        return _frame({**chunk, "choices": [], "usage": self.tally.object()})

    def _take_error(self, frame: bytes) -> bytes:
        chunk = _object(frame)
        error = chunk.get("error") if chunk is not None else None
        self.error = engine_errors.from_object(error if isinstance(error, dict) else {"message": error})
        return error_frame(Dialect.OPENAI, self.error, request_id="")


def _frame_at(frames: bytes, offset: int) -> int:
    """Return where the frame starts that ``offset`` is in."""
    before = frames.rfind(END, 0, offset)
    return before + 2 if before >= 0 else 0


def _wants_timings(frame: bytes) -> bool:
    return _FINISH in frame and b'"timings"' not in frame and frame.endswith(b"}\n\n")


def _with_timings(finish: bytes, frame: bytes, chunk: JsonObject) -> bytes:
    """Return the finish frame with the timings of the usage frame that followed it."""
    if "timings" not in chunk:
        return finish
    if next(reversed(chunk)) == "timings":
        # Last in both, so the engine's own digits can stay.
        return finish[:-3] + frame[frame.rfind(b',"timings":') :]
    return finish[:-3] + b',"timings":' + orjson.dumps(chunk["timings"]) + b"}\n\n"


def _object(frame: bytes) -> JsonObject | None:
    try:
        value = orjson.loads(data_of(frame))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _frame(chunk: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(chunk) + END
