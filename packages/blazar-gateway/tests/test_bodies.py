"""Content encodings, within the limit whatever they expand to."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.bodies import unpack
from blazar_routing.errors import BodyTooLarge, InvalidRequest

LIMIT = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "identity": bytes,
    "": bytes,
}


@pytest.mark.parametrize("encoding", PACKERS)
@given(data=st.binary(max_size=2000))
def test_unpacking_undoes_packing(encoding: str, data: bytes) -> None:
    assert unpack(PACKERS[encoding](data), encoding, limit_bytes=LIMIT) == data


def test_bare_deflate_is_understood() -> None:
    assert unpack(raw_deflate(b'{"a":1}'), "deflate", limit_bytes=LIMIT) == b'{"a":1}'


def test_several_encodings_are_undone_from_the_last() -> None:
    packed = gzip.compress(zlib.compress(b"text"))
    assert unpack(packed, "deflate, gzip", limit_bytes=LIMIT) == b"text"


def test_joined_gzip_members_are_all_read() -> None:
    assert unpack(gzip.compress(b"one ") + gzip.compress(b"two"), "gzip", limit_bytes=LIMIT) == b"one two"


@pytest.mark.parametrize("size", [LIMIT - 1, LIMIT])
def test_expansion_up_to_the_limit_passes(size: int) -> None:
    assert len(unpack(gzip.compress(bytes(size)), "gzip", limit_bytes=LIMIT)) == size


def test_expansion_beyond_the_limit_is_refused() -> None:
    with pytest.raises(BodyTooLarge):
        unpack(gzip.compress(bytes(LIMIT + 1)), "gzip", limit_bytes=LIMIT)


def test_members_together_are_held_to_the_limit() -> None:
    member = gzip.compress(bytes(LIMIT // 2 + 1))
    with pytest.raises(BodyTooLarge):
        unpack(member + member, "gzip", limit_bytes=LIMIT)


def test_bomb_never_takes_the_memory_that_it_promises() -> None:
    bomb = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            unpack(bomb, "gzip", limit_bytes=LIMIT)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 8 << 20


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_data_that_is_cut_or_not_packed_is_a_bad_request(encoding: str) -> None:
    packed = PACKERS[encoding](b"text " * 100)
    with pytest.raises(InvalidRequest, match="ends before"):
        unpack(packed[:-6], encoding, limit_bytes=LIMIT)
    with pytest.raises(InvalidRequest, match=encoding):
        unpack(b'{"model":"m"}', encoding, limit_bytes=LIMIT)


def test_unknown_encoding_is_named() -> None:
    with pytest.raises(InvalidRequest, match="'br' is not supported"):
        unpack(b"x", "br", limit_bytes=LIMIT)
