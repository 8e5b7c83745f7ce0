"""Request bodies: whole, bounded, decompressed."""

import asyncio
import zlib

from aiohttp import web

from blazar_routing.errors import BodyTooLarge, InvalidRequest

MAX_BODY_BYTES = 50 << 20
"""The most a request body may hold, after decompression."""

IDLE_S = 60.0
"""Seconds within which something of a body must arrive; a client that sends nothing for longer is given up."""

LEAST_BYTES_PER_S = 1024
"""The pace of a body, on average over what lies beyond the first :data:`IDLE_S`; a trickle holds a connection."""

_IN_THREAD_BYTES = 64 << 10
"""Compressed bodies above this size are unpacked in a thread."""


async def read_body(request: web.Request, *, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the request's body, unpacked.

    Raises:
        BodyTooLarge: It is over the limit, as sent or as unpacked.
        InvalidRequest: It stopped arriving, or its ``Content-Encoding`` is unknown or does not hold.
    """
    if (request.content_length or 0) > limit_bytes:
        raise BodyTooLarge(limit_bytes=limit_bytes)
    content = request.content
    # Small bodies arrive with the headers.
    body = content.read_nowait() if content.is_eof() else await _read_arriving(request, limit_bytes)
    if len(body) > limit_bytes:
        raise BodyTooLarge(limit_bytes=limit_bytes)
    encoding = request.headers.get("Content-Encoding")
    if encoding is None:
        return body
    if len(body) > _IN_THREAD_BYTES:
        return await asyncio.to_thread(unpack, body, encoding, limit_bytes=limit_bytes)
    return unpack(body, encoding, limit_bytes=limit_bytes)


async def _read_arriving(request: web.Request, limit_bytes: int) -> bytes:
    loop = asyncio.get_running_loop()
    pieces: list[bytes] = []
    size = 0
    began_s = loop.time()
    try:
        async with asyncio.timeout(IDLE_S) as patience:
            while piece := await request.content.readany():
                pieces.append(piece)
                size += len(piece)
                if size > limit_bytes:
                    raise BodyTooLarge(limit_bytes=limit_bytes)
                now_s = loop.time()
                if size < (now_s - began_s - IDLE_S) * LEAST_BYTES_PER_S:
                    raise InvalidRequest(
                        f"the request body arrives too slowly: {size} bytes came in {now_s - began_s:.0f} s, and "
                        f"{LEAST_BYTES_PER_S} a second are the least. Send it from nearer by, or send less."
                    )
                patience.reschedule(now_s + IDLE_S)
    except TimeoutError:
        raise InvalidRequest(
            f"the request body is incomplete: {size} bytes came, then nothing for {IDLE_S:g} s."
        ) from None
    return b"".join(pieces)


def unpack(body: bytes, encoding: str, *, limit_bytes: int) -> bytes:
    """Return ``body`` without its content encodings. Never holds more than the limit, whatever it expands to.

    Raises:
        BodyTooLarge: What it expands to is over the limit.
        InvalidRequest: The encoding is not one of gzip and deflate, or the body is not in it.
    """
    for name in reversed([word.strip().lower() for word in encoding.split(",")]):
        match name:
            case "identity" | "":
                continue
            case "gzip" | "x-gzip":
                body = _inflate(body, limit_bytes, name, wbits=zlib.MAX_WBITS | 16)
            case "deflate":
                # Named so in HTTP, zlib's format is meant; some clients send the bare algorithm's.
                wrapped = body[:1] == b"\x78"
                body = _inflate(body, limit_bytes, name, wbits=zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
            case _:
                raise InvalidRequest(
                    f"the content encoding '{name}' is not supported; send the body as it is, or with gzip or deflate."
                )
    return body


def _inflate(body: bytes, limit_bytes: int, name: str, *, wbits: int) -> bytes:
    out: list[bytes] = []
    room = limit_bytes
    try:
        while body:
            member = zlib.decompressobj(wbits=wbits)
            piece = member.decompress(body, room + 1)
            room -= len(piece)
            if room < 0:
                raise BodyTooLarge(limit_bytes=limit_bytes)
            if not member.eof:
                raise InvalidRequest(f"the request body ends before its {name} data does.")
            out.append(piece)
            # gzip files may be joined end to end.
            body = member.unused_data.lstrip(b"\x00")
    except zlib.error as error:
        raise InvalidRequest(f"the request body is not valid {name} data: {error}.") from None
    return b"".join(out)
