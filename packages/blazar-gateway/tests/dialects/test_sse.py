"""Frames out of pieces that were cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.dialects.sse import MAX_FRAME_BYTES, FrameBuffer, data_of, frame_start, split_frames

FRAMES = b'data: {"a":"\xf0\x9f\xa6\x80\xc3\xa9"}\n\n: ping\n\ndata: [DONE]\n\n'


def taken(pieces: list[bytes]) -> bytes:
    buffer = FrameBuffer()
    return b"".join(buffer.take(piece) for piece in pieces) + buffer.last()


@pytest.mark.parametrize("cut", range(len(FRAMES) + 1))
def test_cut_anywhere_gives_the_same_bytes(cut: int) -> None:
    assert taken([FRAMES[:cut], FRAMES[cut:]]) == FRAMES


def test_one_byte_at_a_time_gives_whole_frames_only() -> None:
    buffer = FrameBuffer()
    outputs = [buffer.take(FRAMES[at : at + 1]) for at in range(len(FRAMES))]
    assert [out for out in outputs if out] == split_frames(FRAMES)


@given(cuts=st.lists(st.integers(0, 60), max_size=6))
def test_carriage_returns_are_taken_as_line_ends_wherever_they_are_cut(cuts: list[int]) -> None:
    crlf = FRAMES.replace(b"\n", b"\r\n")
    edges = sorted({0, *cuts, len(crlf)})
    pieces = [crlf[start:end] for start, end in pairwise(edges)]
    assert taken(pieces) == FRAMES


def test_bytes_that_are_no_characters_pass_as_they_are() -> None:
    frame = b'data: {"a":"\xf0\x9f"}\n\n'
    assert taken([frame]) == frame


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_missing_last_line_end_is_added(end: bytes) -> None:
    assert taken([b"data: [DONE]" + end]) == b"data: [DONE]\n\n"


def test_endless_frame_is_passed_on_rather_than_kept() -> None:
    buffer = FrameBuffer()
    piece = b"x" * (MAX_FRAME_BYTES // 2 + 1)
    assert buffer.take(piece) == b""
    assert buffer.take(piece) == piece + piece


def test_frame_starts() -> None:
    frames = b"data: 1\n\ndata: 22\n\n"
    assert frame_start(frames, len(frames)) == 9
    assert frame_start(frames, 9) == 0
    assert frame_start(frames, 0) == 0


@pytest.mark.parametrize(
    ("frame", "data"),
    [
        (b"data: x\n\n", b"x"),
        (b"data:x\n\n", b"x"),
        (b"data:\n\n", b""),
        (b": comment\n\n", b""),
        (b"event: e\nid: 1\ndata: x\n\n", b"x"),
        (b"data: a\ndata: b\n\n", b"a\nb"),
    ],
)
def test_data_of_a_frame(frame: bytes, data: bytes) -> None:
    assert data_of(frame) == data
