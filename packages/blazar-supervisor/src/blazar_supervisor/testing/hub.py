"""A model hub on the loopback that misbehaves on demand: the hub's listing, its redirects, and a mirror's faults.

It runs in a thread of its own, so that both asynchronous tests and commands in other processes can use it.
"""

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote

from aiohttp import web

COMMIT = "c0ffee" + "0" * 34


class Fault(StrEnum):
    """How a file misbehaves."""

    NONE = "none"
    RANGES_IGNORED = "ranges ignored (200)"
    RANGE_REFUSED = "416 for a part"
    TAG_CHANGES = "changed ETag"
    WRONG_RANGE = "another range"
    TRUNCATED = "truncated"
    SLOW = "slow"
    STALLS = "stalled part"
    WRONG_CONTENT = "wrong hash"
    EMPTY = "empty body"
    PORTAL = "captive portal"
    LINK_EXPIRES = "redirect expiry"
    RESETS_NEAR_END = "reset at 99 %"
    OVERLOADED = "503 with Retry-After"
    PRIVATE_REDIRECT = "redirect into the private network"


@dataclass(slots=True)
class HubFile:
    """A file of a repository.

    Attributes:
        content: Its bytes.
        fault: How it misbehaves.
        times: How many requests do; the others are served well.
        etag: Its tag.
        listed_sha256: What the listing says; that of ``content`` when ``None``.
    """

    content: bytes
    fault: Fault = Fault.NONE
    times: int = 10**9
    etag: str = '"one"'
    listed_sha256: str | None = None
    sent: int = 0
    requests: int = 0

    @property
    def sha256(self) -> str:
        """What the listing says."""
        return self.listed_sha256 or hashlib.sha256(self.content).hexdigest()

    def misbehaves(self) -> bool:
        """Return whether this request is one of those that go wrong, and count it."""
        if self.fault is Fault.NONE or self.times <= 0:
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class FaultyHub:
    """The hub. Change ``files`` at any time.

    Attributes:
        files: By repository (``owner/name``), then by path.
        redirecting: Whether files are behind a redirect, as the real hub's are.
        canary: Requests that should never come.
        cdn_base: Where redirects lead, if not to this hub itself.
        tokens: Path and ``Authorization`` of each request for a file.
    """

    files: dict[str, dict[str, HubFile]] = field(default_factory=dict)
    redirecting: bool = True
    canary: int = 0
    cdn_base: str = ""
    tokens: list[tuple[str, str | None]] = field(default_factory=list)
    listings: int = 0
    base_url: str = ""
    released: threading.Event = field(default_factory=threading.Event)
    _links: int = 0
    _dead_links: set[str] = field(default_factory=set)

    def add(self, repository: str, path: str, content: bytes, fault: Fault = Fault.NONE, **more: object) -> HubFile:
        """Put a file into a repository."""
        file = HubFile(content, fault, **more)  # type: ignore[arg-type]  # the data class's own fields
        self.files.setdefault(repository, {})[path] = file
        return file

    def url(self, repository: str, path: str) -> str:
        """Return a file's address."""
        return f"{self.base_url}/{repository}/resolve/main/{quote(path)}"

    def app(self) -> web.Application:
        """Return the hub as an application."""
        app = web.Application()
        app.router.add_get("/api/models/{owner}/{name}", self._listing)
        app.router.add_get("/api/models/{owner}/{name}/revision/{revision}", self._listing)
        app.router.add_get("/{owner}/{name}/resolve/{revision}/{path:.+}", self._resolve)
        app.router.add_get("/cdn/{link}/{owner}/{name}/{path:.+}", self._cdn)
        app.router.add_get("/canary", self._canary)
        return app

    async def _listing(self, request: web.Request) -> web.Response:
        self.listings += 1
        repository = f"{request.match_info['owner']}/{request.match_info['name']}"
        if repository not in self.files:
            return web.json_response(
                {"error": "Repository not found"}, status=404, headers={"X-Error-Code": "RepoNotFound"}
            )
        siblings = [
            {
                "rfilename": path,
                "size": len(file.content),
                "blobId": file.sha256[:40],
                "lfs": {"sha256": file.sha256, "size": len(file.content), "pointerSize": 134},
            }
            for path, file in self.files[repository].items()
        ]
        return web.json_response({"id": repository, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False})

    async def _resolve(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append((request.path, request.headers.get("Authorization")))
        file, path = self._find(request)
        if file is None:
            return web.Response(status=404)
        if file.fault is Fault.PRIVATE_REDIRECT:
            return web.Response(status=302, headers={"Location": f"http://localhost:{request.url.port}/canary"})
        if not self.redirecting:
            return await self._serve(request, file)
        self._links += 1
        repository = f"{request.match_info['owner']}/{request.match_info['name']}"
        return web.Response(
            status=302, headers={"Location": f"{self.cdn_base}/cdn/{self._links}/{repository}/{quote(path)}"}
        )

    async def _cdn(self, request: web.Request) -> web.StreamResponse:
        self.tokens.append((request.path, request.headers.get("Authorization")))
        file, _ = self._find(request)
        link = request.match_info["link"]
        if file is None or link in self._dead_links:
            return web.Response(status=403)
        if file.fault is Fault.LINK_EXPIRES and file.misbehaves():
            self._dead_links.add(link)
        return await self._serve(request, file)

    async def _canary(self, request: web.Request) -> web.Response:
        del request
        self.canary += 1
        return web.Response(text="the cat is out")

    def _find(self, request: web.Request) -> tuple[HubFile | None, str]:
        repository = f"{request.match_info['owner']}/{request.match_info['name']}"
        path = request.match_info["path"]
        return self.files.get(repository, {}).get(path), path

    async def _serve(self, request: web.Request, file: HubFile) -> web.StreamResponse:
        file.requests += 1
        size = len(file.content)
        start, stop = _range_of(request, size)
        probing = stop - start <= 16
        # The probe is served well where the fault is about what comes after it.
        wrong = not (probing and file.fault not in _SEEN_BY_PROBES) and file.misbehaves()
        fault = file.fault if wrong else Fault.NONE
        match fault:
            case Fault.EMPTY:
                return web.Response(body=b"")
            case Fault.PORTAL:
                return web.Response(text="<html>Please log in</html>", content_type="text/html")
            case Fault.RANGE_REFUSED:
                return web.Response(status=416, headers={"Content-Range": f"bytes */{size}"})
            case Fault.OVERLOADED:
                return web.Response(status=503, headers={"Retry-After": "1"})
            case Fault.TAG_CHANGES:
                file.etag = '"two"'
                file.content = bytes(byte ^ 1 if at >= 4 else byte for at, byte in enumerate(file.content))
            case _:
                pass
        if fault is Fault.RANGES_IGNORED or request.headers.get("If-Range") not in {None, file.etag}:
            start, stop = 0, size
        ranged = (start, stop) != (0, size) or ("Range" in request.headers and fault is not Fault.RANGES_IGNORED)
        return await self._send(request, file, fault, (start, stop), ranged=ranged)

    async def _send(
        self, request: web.Request, file: HubFile, fault: Fault, span: tuple[int, int], *, ranged: bool
    ) -> web.StreamResponse:
        start, stop = span
        if fault is Fault.WRONG_RANGE:
            start += 1
        body = file.content[start:stop]
        headers = {"ETag": file.etag, "Accept-Ranges": "bytes", "Content-Length": str(len(body))}
        if ranged:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(file.content)}"
        response = web.StreamResponse(status=206 if ranged else 200, headers=headers)
        response.content_type = "application/octet-stream"
        await response.prepare(request)
        near_end = max(start, len(file.content) * 99 // 100) - start
        match fault:
            case Fault.WRONG_CONTENT:
                body = body[:-1] + bytes([body[-1] ^ 1])
            case Fault.TRUNCATED:
                return await self._break_off(request, response, file, body[: len(body) // 2])
            case Fault.RESETS_NEAR_END if stop > len(file.content) * 99 // 100:
                return await self._break_off(request, response, file, body[:near_end])
            case Fault.STALLS:
                await self._write(response, file, body[: len(body) // 2])
                await asyncio.to_thread(self.released.wait, 30)
                body = body[len(body) // 2 :]
            case Fault.SLOW:
                for at in range(0, len(body), max(1, len(body) // 20)):
                    await self._write(response, file, body[at : at + max(1, len(body) // 20)])
                    await asyncio.sleep(0.01)
                return response
            case _:
                pass
        await self._write(response, file, body)
        return response

    async def _break_off(
        self, request: web.Request, response: web.StreamResponse, file: HubFile, body: bytes
    ) -> web.StreamResponse:
        await self._write(response, file, body)
        await asyncio.sleep(0.01)
        if request.transport is not None:
            request.transport.abort()
        return response

    @staticmethod
    async def _write(response: web.StreamResponse, file: HubFile, body: bytes) -> None:
        file.sent += len(body)
        await response.write(body)


_SEEN_BY_PROBES = frozenset({Fault.EMPTY, Fault.PORTAL, Fault.RANGES_IGNORED, Fault.OVERLOADED, Fault.WRONG_CONTENT})


def _range_of(request: web.Request, size: int) -> tuple[int, int]:
    text = request.headers.get("Range", "")
    if not text.startswith("bytes="):
        return 0, size
    first, _, last = text.removeprefix("bytes=").partition("-")
    return min(int(first), size), min(int(last) + 1 if last else size, size)


@contextmanager
def running_hub() -> Iterator[FaultyHub]:
    """Serve a hub on a free port of the loopback until the block ends."""
    hub = FaultyHub()
    loop = asyncio.new_event_loop()
    started = threading.Event()

    async def serve() -> None:
        runner = web.AppRunner(hub.app(), handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        hub.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        started.set()
        await stopping.wait()
        await runner.cleanup()
        await loop.shutdown_default_executor()

    stopping = asyncio.Event()

    def work() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            loop.close()

    thread = threading.Thread(target=work, name="faulty-hub")
    thread.start()
    try:
        if not started.wait(30):
            raise TimeoutError("the hub did not start")
        yield hub
    finally:
        hub.released.set()
        loop.call_soon_threadsafe(stopping.set)
        thread.join(30)
