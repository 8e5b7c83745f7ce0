"""What arrived together is read together, whatever aiohttp does inside."""

import asyncio

from aiohttp import StreamReader

from blazar_gateway.joined_reads import join_reads


class CountsResumptions:
    """As much of a protocol as a reader needs."""

    connected = True
    _reading_paused = False

    def __init__(self) -> None:
        self.resumptions = 0

    def resume_reading(self, *, resume_parser: bool = True) -> None:
        self.resumptions += 1


async def test_pieces_are_joined_and_reading_resumes_once() -> None:
    protocol = CountsResumptions()
    reader = StreamReader(protocol, 1 << 16, loop=asyncio.get_running_loop())  # type: ignore[arg-type]  # a stand-in
    join_reads(reader)
    for piece in (b"a", b"b", b"c"):
        reader.feed_data(piece)
    assert await reader.readany() == b"abc"
    # More than once: aiohttp has changed inside, and streams of many tokens a read have become slow.
    assert protocol.resumptions == 1
    reader.feed_data(b"d")
    assert await reader.readany() == b"d"
    reader.feed_eof()
    assert await reader.readany() == b""


async def test_part_of_a_piece_can_still_be_read() -> None:
    reader = StreamReader(CountsResumptions(), 1 << 16, loop=asyncio.get_running_loop())  # type: ignore[arg-type]
    join_reads(reader)
    reader.feed_data(b"abc")
    reader.feed_data(b"def")
    assert await reader.read(2) == b"ab"
    reader.feed_data(b"g")
    assert await reader.readany() == b"cdefg"
