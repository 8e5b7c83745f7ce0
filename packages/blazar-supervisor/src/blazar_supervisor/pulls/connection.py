"""Asking servers for ranges: checked addresses, redirects by hand, credentials only where they belong."""

import asyncio
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from socket import AF_INET, AddressFamily
from urllib.parse import urljoin
from urllib.request import getproxies

from aiohttp import ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override
from yarl import URL

from blazar_supervisor.pulls.addresses import AddressPolicy, ForbiddenAddress, host_and_port

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PRIVATE = frozenset({"authorization", "cookie"})
_CONNECT_S = 20.0
_READ_BYTES = 1 << 20


class CheckedResolver(AbstractResolver):
    """Resolves names, and refuses those that lead into a private network.

    The connector connects to exactly the addresses returned here, so a name that changes its mind between a check
    and the connection gains nothing.

    Args:
        policy: Says which hosts may be private.
        proxies: ``host:port`` of the owner's proxies, which may be private too.
    """

    def __init__(self, policy: AddressPolicy, proxies: Collection[str] = ()) -> None:
        self._policy = policy
        self._proxies = frozenset(proxies)
        self._inner = ThreadedResolver()

    @override
    async def resolve(self, host: str, port: int = 0, family: AddressFamily = AF_INET) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        if f"{host.lower()}:{port}" not in self._proxies:
            for one in found:
                self._policy.check_address(f"https://{host}:{port}", ip_address(one["host"].partition("%")[0]))
        return found

    @override
    async def close(self) -> None:
        await self._inner.close()


def open_session(policy: AddressPolicy) -> ClientSession:
    """Return a session whose every connection is checked by ``policy``. Call it on the loop; close it."""
    proxies = {host_and_port(url if "://" in url else f"http://{url}") for url in getproxies().values() if url}
    return ClientSession(
        connector=TCPConnector(resolver=CheckedResolver(policy, proxies), limit=0),
        timeout=ClientTimeout(total=None, sock_connect=_CONNECT_S),
        headers={"User-Agent": "blazar", "Accept": "*/*", "Accept-Encoding": "identity"},
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        read_bufsize=_READ_BYTES,
        trust_env=bool(proxies),
    )


class Origin:
    """Where a file comes from, and where its address led to last.

    Args:
        session: See :func:`open_session`.
        policy: Every address is checked by it, redirects too.
        url: The address; it may redirect.
        headers: Sent to the host of ``url`` only when they are private.
        patience_s: Seconds until headers must have come.
    """

    def __init__(
        self,
        session: ClientSession,
        policy: AddressPolicy,
        url: str,
        headers: Mapping[str, str],
        *,
        patience_s: float,
    ) -> None:
        self.url = url
        self._session = session
        self._policy = policy
        self._headers = headers
        self._patience_s = patience_s
        self._resolved: str | None = None

    async def ask(self, headers: Mapping[str, str]) -> ClientResponse:
        """Send a GET; return the answer, its body unread. The caller closes it.

        An address that a redirect led to is asked directly until it refuses: signed ones expire.

        Raises:
            ForbiddenAddress: It may not be asked.
            ClientError, TimeoutError: As aiohttp has it.
        """
        if self._resolved is not None:
            response = await self._follow(self._resolved, headers)
            if response.status < 400 or response.status in {416, 429} or response.status >= 500:
                return response
            response.close()
            self._resolved = None
        return await self._follow(self.url, headers)

    def forget(self) -> None:
        """Begin at the address itself next time: what it led to misbehaved."""
        self._resolved = None

    async def _follow(self, url: str, headers: Mapping[str, str]) -> ClientResponse:
        for _ in range(MAX_REDIRECTS + 1):
            self._policy.check_url(url)
            own = host_and_port(url) == host_and_port(self.url)
            sent = {name: value for name, value in self._headers.items() if own or name.lower() not in _PRIVATE}
            async with asyncio.timeout(self._patience_s):
                response = await self._session.get(
                    URL(url, encoded=True), headers={**sent, **headers}, allow_redirects=False
                )
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location:
                if response.status in {200, 206} and url != self.url:
                    self._resolved = url
                return response
            response.close()
            url = urljoin(url, location)
        raise ForbiddenAddress(f"{self.url} leads to more than {MAX_REDIRECTS} redirects")
