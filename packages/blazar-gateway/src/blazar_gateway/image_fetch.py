"""Images by address: fetched from the open internet, and from nowhere else.

A chat that names an address makes this machine read it. So the address that is connected to has to be a public one,
whatever the name or a redirect says, and proxies are not used, since through one it could not be told.
"""

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urljoin, urlsplit

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from yarl import URL

from blazar_routing.addresses import is_public
from blazar_routing.errors import InvalidRequest

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SHOWN = 200
_CONNECTIONS = 8

Allows = Callable[[IPv4Address | IPv6Address], bool]

AddrInfo = tuple[
    int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[str, int] | tuple[str, int, int, int]
]


class _NotPublic(OSError):
    """A connection would go where it may not."""


class ImageFetcher:
    """Fetches images for chats.

    Args:
        allows: Says of an address whether it may be connected to.
    """

    def __init__(self, *, allows: Allows = is_public) -> None:
        self._allows = allows
        self._session: ClientSession | None = None

    async def fetch(self, url: str, *, limit_bytes: int) -> tuple[bytes, str]:
        """Return what is at an address, and the media type that its server says it has.

        Raises:
            InvalidRequest: It cannot be had; the text says why, and what to do instead.
        """
        try:
            async with await self._follow(url) as answer:
                if answer.status != 200:
                    raise _failed(url, f"its server answered with status {answer.status}")
                if (answer.content_length or 0) > limit_bytes:
                    raise too_large(url, limit_bytes)
                return await _read(answer, url, limit_bytes), answer.content_type
        except ClientConnectorError as error:
            if isinstance(error.os_error, _NotPublic):
                raise _failed(url, "it is not at a public address") from None
            raise _failed(url, "its server cannot be reached") from None
        except (ClientError, OSError, ValueError):
            raise _failed(url, "its server did not answer as web servers do") from None

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def _follow(self, url: str) -> ClientResponse:
        session = self._open()
        at = url
        for _ in range(MAX_REDIRECTS + 1):
            parts = urlsplit(at)
            if parts.scheme.lower() not in {"http", "https"} or not parts.hostname:
                raise _failed(url, "it does not lead to a web address")
            if parts.username is not None:
                raise _failed(url, "it carries a user name, which is not sent")
            answer = await session.get(URL(at, encoded=True), allow_redirects=False)
            location = answer.headers.get("Location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            answer.close()
            at = urljoin(at, location)
        raise _failed(url, f"it leads through more than {MAX_REDIRECTS} redirects")

    def _open(self) -> ClientSession:
        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(socket_factory=self._checked_socket, limit=_CONNECTIONS, force_close=True),
                timeout=ClientTimeout(total=None),
                headers={"User-Agent": "blazar", "Accept": "image/*", "Accept-Encoding": "identity"},
                cookie_jar=DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session

    def _checked_socket(self, address: AddrInfo) -> socket.socket:
        """Return a socket for an address; called for each one right before the connection is made."""
        family, kind, protocol, _, place = address
        if not self._allows(ip_address(str(place[0]).partition("%")[0])):
            raise _NotPublic("not a public address")
        return socket.socket(family, kind, protocol)


async def _read(answer: ClientResponse, url: str, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > limit_bytes:
            raise too_large(url, limit_bytes)
    return b"".join(pieces)


def _failed(url: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"the image at {url[:_SHOWN]} was not fetched: {reason}. Send the image itself, as data:image/png;base64,….",
        param="messages",
    )


def too_large(url: str, limit_bytes: int) -> InvalidRequest:
    """Return the error of images that have more bytes than are left to them."""
    return _failed(url, f"more than {limit_bytes / (1 << 20):g} MiB are left to it (`fetch_images_max_mb` for all)")


def too_slow(url: str, seconds: float) -> InvalidRequest:
    """Return the error of images that did not come in time."""
    return _failed(url, f"it did not come within {seconds:g} s (`fetch_images_timeout_secs`)")


def switched_off() -> InvalidRequest:
    """Return the error of an image by address where none is fetched."""
    return InvalidRequest(
        "the messages hold an image by its address, and this server fetches none (`fetch_images = false` in "
        "config.toml). Send the image itself, as data:image/png;base64,….",
        param="messages",
    )
