"""Small questions to a child over HTTP: a fresh connection each, a timeout on each, no exception for a dead one."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp

from blazar_supervisor.children.endpoint import Endpoint

_ANSWER_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What a child answered.

    Attributes:
        status: The HTTP status.
        body: The parsed JSON, or ``None`` when it was none.
        text: As it came.
    """

    status: int
    body: object
    text: bytes = b""


class ControlSession:
    """Asks one child. Connections are not kept: the questions are rare, and a child counts idle ones."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str]) -> None:
        self._endpoint = endpoint
        self._headers = dict(headers)
        self._session: aiohttp.ClientSession | None = None

    async def get(self, path: str, *, timeout_s: float) -> Answer | None:
        """Return the answer to ``GET path``, or ``None`` when none came in time."""
        return await self._ask("GET", path, None, timeout_s=timeout_s)

    async def post(self, path: str, body: Mapping[str, object], *, timeout_s: float) -> Answer | None:
        """Return the answer to ``POST path`` with a JSON body, or ``None`` when none came in time."""
        return await self._ask("POST", path, body, timeout_s=timeout_s)

    async def text(self, path: str, *, timeout_s: float) -> str | None:
        """Return the text of a good answer to ``GET path``, or ``None`` when none came in time."""
        answer = await self._ask("GET", path, None, timeout_s=timeout_s)
        return answer.text.decode("utf-8", "replace") if answer is not None and answer.status == 200 else None

    async def _ask(
        self, method: str, path: str, body: Mapping[str, object] | None, *, timeout_s: float
    ) -> Answer | None:
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._open().request(
                    method, self._endpoint.base_url + path, headers=self._headers, json=body
                ) as response,
            ):
                text = await response.content.read(_ANSWER_BYTES)
                return Answer(response.status, _parsed(text), text)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    async def close(self) -> None:
        """Close it; further questions open it anew."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            path = self._endpoint.socket_path
            connector: aiohttp.BaseConnector
            if path is None:
                connector = aiohttp.TCPConnector(force_close=True)
            else:
                connector = aiohttp.UnixConnector(str(path), force_close=True)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=5.0)
            # trust_env stays off: a proxy in the environment has no business between us and a child.
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        return self._session


def _parsed(text: bytes) -> object:
    try:
        parsed: object = json.loads(text)
    except ValueError:
        return None
    return parsed
