"""Reading a header over HTTP: a few ranged requests instead of gigabytes.

Imported only by whoever needs it; nothing else in this package opens a connection.

The first request brings 256 KiB, which holds everything up to the vocabulary of practically every model. What
lies behind (chat template, tensor infos) is fetched when it is asked for, in growing blocks, and kept.

A server that ignores ``Range`` would send the whole model: its answer is used for the first block and then cut off.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final
from urllib.parse import urlunsplit

from blazar_gguf.errors import GgufChanged, RemoteError
from blazar_gguf.meta import GgufMeta
from blazar_gguf.remote.client import Fetched, RangeClient, UrlCheck, checked_url
from blazar_gguf.shards import parse_shard_name
from blazar_gguf.walk import start

FIRST_BLOCK: Final = 256 << 10
"""Bytes of the first request."""

NEXT_BLOCK: Final = 1 << 20
"""Bytes of the requests after it, at least; they double up to eight times this."""

MAX_HEADER_BYTES: Final = 256 << 20
"""More than any header takes; what a hostile server can make a reader fetch."""


class RemoteSource:
    """A file behind a URL; implements :class:`blazar_gguf.source.Source`.

    Ranges that were fetched are kept, so reading a header twice costs no second request.

    Args:
        url: ``https://`` or ``http://``.
        headers: sent with every request to the URL's own host, e.g. ``{"Authorization": "Bearer …"}``.
        timeout_s: for one request, in seconds, from connecting to the last byte.
        check: see :data:`UrlCheck`.
        ssl_context: trust settings; the system's by default.

    Raises:
        RemoteError: the URL is no HTTP URL, or the first request fails.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        check: UrlCheck | None = None,
        ssl_context: SSLContext | None = None,
    ) -> None:
        self._url = url
        parts = checked_url(url)
        self._name = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        self._client = RangeClient(dict(headers or {}), timeout_s, check, ssl_context)
        self._blocks: list[tuple[int, bytes]] = []
        self._next = NEXT_BLOCK
        self.requests = 0
        self.fetched_bytes = 0
        first = self._fetch(0, FIRST_BLOCK)
        self._size = first.size
        self._tag = first.tag
        self._ranged = first.ranged
        self._blocks.append((0, first.body))

    @property
    def size(self) -> int:
        """Length of the file in bytes, as the server says."""
        return self._size

    @property
    def name(self) -> str:
        """The URL without its query, which may hold a signature."""
        return self._name

    def first_block(self) -> int:
        """What the first request brought."""
        return FIRST_BLOCK

    def read_at(self, offset: int, length: int) -> bytes:
        """Return a range, from what was fetched or with one more request.

        Raises:
            RemoteError: the request fails, or the server does not do ranges.
            GgufChanged: the file behind the URL is no longer the one whose header was begun.
        """
        return self.read_ahead(offset, length, length)

    def read_ahead(self, offset: int, least: int, most: int) -> bytes:
        """Return what is there of a range if it is enough, else fetch more.

        Raises:
            RemoteError, GgufChanged: as for :meth:`read_at`.
        """
        length = max(0, min(least, self._size - offset))
        for start_at, block in self._blocks:
            if start_at <= offset and offset + length <= start_at + len(block):
                return block[offset - start_at : offset - start_at + most]
        if not self._ranged:
            raise RemoteError(
                "the server ignores ranges, so only the first part of the file can be read from afar. "
                "Download the file and read it from disk",
                path=self.name,
            )
        return self._read_more(offset, length)

    def _read_more(self, offset: int, length: int) -> bytes:
        """Fetch what is missing of a range, continuing the block it begins in where there is one."""
        known = next((b for b in self._blocks if b[0] <= offset < b[0] + len(b[1])), None)
        start_at = offset if known is None else known[0] + len(known[1])
        wanted = max(offset + length - start_at, min(self._next, self._size - start_at))
        self._next = min(self._next * 2, 8 * NEXT_BLOCK)
        more = self._fetch(start_at, wanted)
        if (more.size, more.tag) != (self._size, self._tag) or not more.ranged:
            raise GgufChanged("the file behind the URL changed while its header was read. Try again", path=self.name)
        if known is None:
            self._blocks.append((start_at, more.body))
            return more.body[:length]
        whole = (known[0], known[1] + more.body)
        self._blocks[self._blocks.index(known)] = whole
        return whole[1][offset - whole[0] : offset - whole[0] + length]

    def _fetch(self, offset: int, length: int) -> Fetched:
        if self.fetched_bytes + length > MAX_HEADER_BYTES:
            raise RemoteError(
                f"the header takes more than {MAX_HEADER_BYTES:,} bytes; this cannot be right", path=self.name
            )
        self.requests += 1
        try:
            found = self._client.fetch(self._url, offset, length)
        except RemoteError as error:
            error.path = error.path or self.name
            raise
        self.fetched_bytes += len(found.body)
        return found


def read_metadata_url(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    check: UrlCheck | None = None,
    ssl_context: SSLContext | None = None,
    complete: bool = False,
) -> GgufMeta:
    """Read the header of a file behind a URL.

    Usually one request of 256 KiB: architecture, shape, vocabulary size and file size are known then. Asking the result
    for what lies behind the vocabulary (``tensors``, ``chat_templates``, ``n_params``) fetches the rest, some MiB.

    Args:
        url: see :class:`RemoteSource`, here and below.
        headers: sent to the URL's own host.
        timeout_s: for one request.
        check: called with each URL before it is opened.
        ssl_context: trust settings.
        complete: fetch the whole header now.

    Raises:
        RemoteError: the URL cannot be read; the text says why.
        GgufError: what is there is no GGUF header.
    """
    source = RemoteSource(url, headers=headers, timeout_s=timeout_s, check=check, ssl_context=ssl_context)
    walk = start(source)
    walk.run(pause=not complete)
    return GgufMeta.from_walk(walk)


@dataclass(frozen=True, slots=True)
class RemoteShards:
    """The parts of a split model behind URLs.

    Attributes:
        urls: the parts in order; one for a model that is not split.
        sizes: bytes of each.
    """

    urls: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes of all parts together."""
        return sum(self.sizes)


def remote_shards(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    check: UrlCheck | None = None,
    ssl_context: SSLContext | None = None,
) -> RemoteShards:
    """Find the sizes of all parts of a split model, with one tiny request each.

    Args:
        url: any part; a name without ``-00001-of-00003`` is a model in one file.
        headers: sent to the URL's own host, see :class:`RemoteSource` for this and the rest.
        timeout_s: for one request.
        check: called with each URL before it is opened.
        ssl_context: trust settings.

    Raises:
        RemoteError: a part is not there; the text names it.
    """
    parts = checked_url(url)
    folder, _, last = parts.path.rpartition("/")
    name = parse_shard_name(last)
    names = [last] if name is None else [name.part(n) for n in range(1, name.count + 1)]
    urls = tuple(urlunsplit(parts._replace(path=f"{folder}/{one}")) for one in names)
    client = RangeClient(dict(headers or {}), timeout_s, check, ssl_context)
    sizes = []
    for one, file_name in zip(urls, names, strict=True):
        try:
            sizes.append(client.fetch(one, 0, 1).size)
        except RemoteError as error:
            error.path = error.path or file_name
            raise
    return RemoteShards(urls, tuple(sizes))
