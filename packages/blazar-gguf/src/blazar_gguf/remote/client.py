"""Getting one range of one URL: redirects, proxies, deadlines, and servers that do something else.

Redirects are followed by hand: each target is checked again, credentials stay with the host they were given for,
encryption is not left, and a public address may not lead to a private one.
"""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from ssl import SSLContext, create_default_context
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

from blazar_gguf.errors import RemoteError

MAX_REDIRECTS: Final = 5
_PIECE: Final = 64 << 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PRIVATE_HEADERS: Final = frozenset({"authorization", "cookie", "proxy-authorization"})

UrlCheck = Callable[[str], bool]
"""Called with each URL before it is opened, redirects included; False refuses it."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """One answer.

    Attributes:
        body: the bytes asked for.
        size: of the whole file.
        tag: ETag or date, to notice that the file changed.
        ranged: False when the server ignored the range.
        url: where it finally came from.
    """

    body: bytes
    size: int
    tag: str
    ranged: bool
    url: str


class RangeClient:
    """Fetches ranges, following redirects by hand; one connection for each request."""

    def __init__(
        self, headers: dict[str, str], timeout_s: float, check: UrlCheck | None, ssl_context: SSLContext | None
    ) -> None:
        self._headers = headers
        self._timeout_s = timeout_s
        self._check = check
        self._context = ssl_context

    def fetch(self, url: str, offset: int, length: int) -> Fetched:
        """Get ``length`` bytes from ``offset``, fewer where the file ends.

        Raises:
            RemoteError: anything that went wrong, in words.
        """
        deadline = time.monotonic() + self._timeout_s
        origin = checked_url(url)
        target, public = origin, False
        for _ in range(MAX_REDIRECTS + 1):
            if self._check is not None and not self._check(urlunsplit(target)):
                raise RemoteError(f"{target.hostname} is not an allowed source")
            answer, public = self._ask(target, origin, offset, length, deadline, was_public=public)
            if isinstance(answer, Fetched):
                return answer
            target = self._redirected(target, answer)
        raise RemoteError(f"more than {MAX_REDIRECTS} redirects")

    @staticmethod
    def _redirected(source: SplitResult, location: str) -> SplitResult:
        target = checked_url(urljoin(urlunsplit(source), location))
        if source.scheme == "https" and target.scheme != "https":
            raise RemoteError(f"a redirect to {target.scheme}://{target.hostname} would leave encryption")
        return target

    def _ask(
        self,
        target: SplitResult,
        origin: SplitResult,
        offset: int,
        length: int,
        deadline: float,
        *,
        was_public: bool,
    ) -> tuple[Fetched | str, bool]:
        """Send one request; return what came, or where to go instead, and whether this host is a public one."""
        connection, path, direct = self._open(target, deadline)
        try:
            connection.connect()
            public = direct and _is_public(connection.sock.getpeername()[0])
            if was_public and direct and not public:
                raise RemoteError(f"a redirect leads from a public address to {target.hostname}, a private one")
            connection.request("GET", path, headers=self._request_headers(target, origin, offset, length))
            # the answer owns the socket once the server is asked to close it
            with closing(connection.getresponse()) as response:
                location = response.getheader("Location")
                if response.status in _REDIRECTS and location:
                    return location, public
                return _read(response, urlunsplit(target), offset, length, deadline), public
        except TimeoutError as error:
            raise RemoteError(f"{target.hostname} did not answer within {self._timeout_s:g} s. Try again") from error
        except (OSError, HTTPException) as error:
            raise RemoteError(f"cannot read from {target.hostname}: {str(error) or type(error).__name__}") from error
        finally:
            connection.close()

    def _open(self, target: SplitResult, deadline: float) -> tuple[HTTPConnection, str, bool]:
        """An unconnected connection, the path to request on it, and whether it goes to the host itself."""
        timeout = max(0.001, deadline - time.monotonic())
        host, secure = target.hostname or "", target.scheme == "https"
        path = urlunsplit(("", "", target.path or "/", target.query, ""))
        proxy = None if proxy_bypass(host) else getproxies().get(target.scheme)
        via = urlsplit(proxy) if proxy else None
        if via is not None and via.hostname:
            if secure:
                tunnel = HTTPSConnection(via.hostname, via.port, timeout=timeout, context=self._tls())
                tunnel.set_tunnel(host, target.port or 443)
                return tunnel, path, False
            return HTTPConnection(via.hostname, via.port, timeout=timeout), urlunsplit(target), False
        if secure:
            return HTTPSConnection(host, target.port, timeout=timeout, context=self._tls()), path, True
        return HTTPConnection(host, target.port, timeout=timeout), path, True

    def _tls(self) -> SSLContext:
        if self._context is None:
            self._context = create_default_context()
        return self._context

    def _request_headers(self, target: SplitResult, origin: SplitResult, offset: int, length: int) -> dict[str, str]:
        same_host = (target.scheme, target.netloc) == (origin.scheme, origin.netloc)
        given = {k: v for k, v in self._headers.items() if same_host or k.lower() not in _PRIVATE_HEADERS}
        return {
            "User-Agent": "blazar-gguf",
            "Accept": "*/*",
            **given,
            "Accept-Encoding": "identity",
            "Range": f"bytes={offset}-{offset + length - 1}",
            "Connection": "close",
        }


def checked_url(url: str) -> SplitResult:
    """Take an HTTP URL apart.

    Raises:
        RemoteError: it is none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise RemoteError(f"not a URL: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise RemoteError(f"only http:// and https:// URLs can be read, not {url[:60]!r}")
    return parts._replace(fragment="")


def _is_public(address: str) -> bool:
    try:
        return ip_address(address.partition("%")[0]).is_global
    except ValueError:
        return False


def _content_range(header: str | None) -> tuple[int, int] | None:
    """Start and total of ``bytes 0-99/1234``; None when it says something else."""
    unit, _, rest = (header or "").partition(" ")
    span, _, total = rest.partition("/")
    first, _, last = span.partition("-")
    if unit.lower() != "bytes" or not (first.isdigit() and last.isdigit() and total.isdigit()):
        return None
    return int(first), int(total)


def _read(response: HTTPResponse, url: str, offset: int, length: int, deadline: float) -> Fetched:
    """Take the range out of an answer and leave the rest unread."""
    if response.getheader("Content-Encoding", "identity").lower() not in {"", "identity"}:
        raise RemoteError("the server compresses the file, which cannot be read in ranges")
    tag = response.getheader("ETag") or response.getheader("Last-Modified") or ""
    match response.status:
        case 206:
            found = _content_range(response.getheader("Content-Range"))
            if found is None or found[0] != offset:
                raise RemoteError(f"the server sent another range than bytes {offset:,} and on. Try again")
            size, ranged = found[1], True
        case 200:
            declared = response.getheader("Content-Length", "")
            if offset or not declared.isdigit():
                raise RemoteError("the server ignores ranges. Download the file and read it from disk")
            size, ranged = int(declared), False
        case 401 | 403:
            raise RemoteError(
                f"access is denied (HTTP {response.status}). The file may need a token or an accepted licence"
            )
        case 404 | 410:
            raise RemoteError(f"there is no such file (HTTP {response.status}). Check the URL")
        case 416:
            raise RemoteError("the file is empty or shorter than expected (HTTP 416)")
        case 429:
            raise RemoteError("the server asks to slow down (HTTP 429). Try again later")
        case status:
            raise RemoteError(f"the server answered HTTP {status} {response.reason}")
    body = _body(response, min(length, max(0, size - offset)), deadline)
    return Fetched(body, size, tag, ranged, url)


def _body(response: HTTPResponse, length: int, deadline: float) -> bytes:
    parts: list[bytes] = []
    missing = length
    while missing:
        if time.monotonic() > deadline:
            raise TimeoutError
        piece = response.read(min(_PIECE, missing))
        if not piece:
            raise RemoteError(f"the connection ended {missing:,} bytes early. Try again")
        parts.append(piece)
        missing -= len(piece)
    return b"".join(parts)
