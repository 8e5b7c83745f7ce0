"""Fetching one file, without ever harming what is there.

The plan:

1. Under the file's lock, ask for its first bytes: how long is it, which tag does it have, does the server do ranges,
   does it begin as it should (a captive portal answers with a web page).
2. What an earlier run left is kept if it is of that very file (length and tag), else it is forgotten.
3. The disk must have room for what is missing.
4. The gaps are fetched as ranges, several at once. Each part has its own patience: a stall, a reset or a short answer
   costs only what had not arrived. A server without ranges is read in one go, from the start.
5. An answer that does not belong (another range, another tag, the whole file) is not written; the plan begins again
   at 1, and from the second time on in one go.
6. The length and, where it is known, the hash are compared. Only then does the file get its name.
"""

import asyncio
import hashlib
import hmac
import shutil
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from aiohttp import ClientConnectorError, ClientError, ClientResponse, ClientSession

from blazar_routing.errors import LaneError, PullFailed, PullRefused
from blazar_supervisor.pulls.addresses import AddressPolicy, ForbiddenAddress
from blazar_supervisor.pulls.answers import Answer, Failing, Misfit, read_answer, refuse_web_page
from blazar_supervisor.pulls.connection import Origin
from blazar_supervisor.pulls.file_lock import file_lock
from blazar_supervisor.pulls.network_words import reason_of
from blazar_supervisor.pulls.partial_file import PartialFile, no_room
from blazar_supervisor.pulls.parts import CHUNK, Identity, plan_requests
from blazar_supervisor.pulls.patience import Patience

T = TypeVar("T")
Report = Callable[[int, int], None]
"""Called with the bytes that are there and the bytes in all."""

_PROBE_BYTES = 16
_SPARE_BYTES = 64 << 20
"""Room that a download leaves: a full disk hurts more than a missing model."""
_SAVE_EVERY = 16 << 20
_MISFITS = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file to fetch.

    Attributes:
        url: Its address.
        target: Where it goes; never touched before the file is verified.
        size: Its bytes where a listing said, else ``None``.
        sha256: 64 hex digits where a listing said, else ``None``.
        magic: What it must begin with (``GGUF``), or ``b""``.
        headers: For its own host; credentials go nowhere else.
    """

    url: str
    target: Path
    size: int | None = None
    sha256: str | None = None
    magic: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that is there.

    Attributes:
        path: Its place.
        size: Its bytes.
        sha256: Computed from them.
        received: Bytes that came over the network in this run; 0 when it was there.
        kept: Bytes of an earlier run that were used.
    """

    path: Path
    size: int
    sha256: str
    received: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Downloader:
    """Fetches files.

    Attributes:
        session: From :func:`blazar_supervisor.pulls.connection.open_session`.
        policy: Where it may go.
        patience: When it gives up.
        parallel: Ranges of one file fetched at once.
        chunk: Bytes of one range.
        free_bytes: Returns the room on the disk of a directory.
    """

    session: ClientSession
    policy: AddressPolicy
    patience: Patience = field(default_factory=Patience)
    parallel: int = 4
    chunk: int = CHUNK
    free_bytes: Callable[[Path], int] = field(default=lambda path: shutil.disk_usage(path).free)

    async def fetch(self, wanted: Wanted, report: Report) -> Fetched:
        """Return the file, fetching what is missing of it. Cancelling it keeps what has arrived.

        Raises:
            PullRefused: Its address may not be asked, or the server wants credentials.
            PullNotFound: It is not there.
            PullFailed: Anything else; the next run goes on where this one stopped.
        """
        try:
            async with file_lock(wanted.target, sleep=self.patience.sleep):
                return await _Run(self, wanted, report).fetch()
        except ForbiddenAddress as error:
            raise PullRefused(f"{error}. Nothing was fetched from there.") from error


class _Run:
    """One fetch of one file."""

    def __init__(self, downloader: Downloader, wanted: Wanted, report: Report) -> None:
        self._settings = downloader
        self._patience = downloader.patience
        self._wanted = wanted
        self._report = report
        self._partial = PartialFile(wanted.target)
        # One thread: writes keep their order, and closing comes after the last of them.
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="blazar-pull")
        self._origin = Origin(
            downloader.session, downloader.policy, wanted.url, wanted.headers, patience_s=downloader.patience.headers_s
        )
        self._size = 0
        self._tag: str | None = None
        self._received = 0
        self._kept = 0
        self._unsaved = 0

    async def fetch(self) -> Fetched:
        try:
            return await self._there_already() or await self._fetch()
        finally:
            await asyncio.shield(self._on_disk(self._close))
            self._disk.shutdown(wait=False)

    async def _there_already(self) -> Fetched | None:
        """Return the file if it is at its place and is the right one; only a hash tells that."""
        wanted = self._wanted
        if wanted.sha256 is None:
            return None
        found = await self._on_disk(lambda: _hash_of(wanted.target, wanted.size))
        if found is None or not hmac.compare_digest(found[1], wanted.sha256.lower()):
            return None
        self._report(found[0], found[0])
        return Fetched(wanted.target, found[0], found[1])

    async def _fetch(self) -> Fetched:
        await self._on_disk(self._partial.open)
        for misfits in range(_MISFITS + 1):
            try:
                await self._fill(in_one_go=misfits > 1)
            except Misfit as misfit:
                if misfits == _MISFITS:
                    raise PullFailed(
                        f"{self._wanted.url} cannot be fetched: {misfit}, again and again. "
                        "Try a mirror ([sources] in config.toml), or later."
                    ) from misfit
                self._origin.forget()
            else:
                return await self._finish()
        raise AssertionError("the loop ends by itself")

    async def _fill(self, *, in_one_go: bool) -> None:
        answer = await self._probe()
        self._size, self._tag = answer.size, answer.tag
        identity = Identity(answer.size, " ".join(filter(None, (self._wanted.sha256, answer.tag))) or None)
        await self._on_disk(lambda: self._partial.begin(identity))
        if not answer.ranged or in_one_go:
            await self._on_disk(self._partial.reset)
        have = self._partial.ranges.total
        # What this run itself fetched before a misfit is not of an earlier one.
        self._kept = have if self._received == 0 else min(self._kept, have)
        self._tell()
        await self._require_room(answer.size - have)
        if answer.ranged and not in_one_go:
            await self._fetch_parts()
        else:
            await self._fetch_whole()

    async def _probe(self) -> Answer:
        async def probe() -> Answer:
            response = await self._ask({"Range": f"bytes=0-{_PROBE_BYTES - 1}"})
            # An unread rest must not be waited for: closing drops the connection.
            with closing(response):
                refuse_web_page(response, self._wanted.url, magic=self._wanted.magic)
                answer = read_answer(response, start=0, listed=self._wanted.size)
                first = b""
                while len(first) < min(len(self._wanted.magic), answer.size):
                    async with asyncio.timeout(self._patience.stall_s):
                        piece = await response.content.readany()
                    if not piece:
                        raise Failing("the answer ended early")
                    first += piece
            self._check_magic(first)
            return answer

        return await self._patiently(probe)

    def _check_magic(self, first: bytes) -> None:
        magic = self._wanted.magic
        if first[: len(magic)] != magic:
            raise PullFailed(
                f"{self._wanted.url} is not a GGUF file: it begins with {first[: len(magic)]!r}. "
                "Check the address; a page of a login or a proxy may have been sent instead of the file."
            )

    async def _require_room(self, missing: int) -> None:
        free = await self._on_disk(lambda: self._settings.free_bytes(self._wanted.target.parent))
        if missing and free < missing + _SPARE_BYTES:
            raise no_room(self._wanted.target, needed=missing + _SPARE_BYTES, free=free)

    async def _fetch_parts(self) -> None:
        spans = deque(plan_requests(self._partial.ranges.missing(self._size), chunk=self._settings.chunk))
        workers = min(self._settings.parallel, len(spans))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._work(spans))
        except BaseExceptionGroup as failures:
            # The first to fail cancelled the others.
            raise failures.exceptions[0] from None

    async def _work(self, spans: deque[tuple[int, int]]) -> None:
        while spans:
            start, stop = spans.popleft()
            place = _Place(start)
            await self._patiently(lambda place=place, stop=stop: self._fetch_span(place, stop), place)  # type: ignore[misc]  # a lambda's defaults

    async def _fetch_span(self, place: "_Place", stop: int) -> None:
        while place.at < stop:
            headers = {"Range": f"bytes={place.at}-{stop - 1}"}
            if self._tag is not None:
                headers["If-Range"] = self._tag
            response = await self._ask(headers)
            with closing(response):
                refuse_web_page(response, self._wanted.url, magic=self._wanted.magic)
                answer = read_answer(response, start=place.at, listed=self._wanted.size)
                if not answer.ranged:
                    raise Misfit("the server sends the whole file where a part of it was asked for")
                self._check_same(answer)
                await self._take(response, place, min(stop, answer.stop))

    async def _fetch_whole(self) -> None:
        async def whole() -> None:
            await self._on_disk(self._partial.reset)
            response = await self._ask({})
            with closing(response):
                refuse_web_page(response, self._wanted.url, magic=self._wanted.magic)
                self._check_same(read_answer(response, start=0, listed=self._wanted.size))
                await self._take(response, _Place(0), self._size)

        await self._patiently(whole)

    def _check_same(self, answer: Answer) -> None:
        if answer.size != self._size or answer.tag != self._tag:
            raise Misfit("the file changed on the server while it was fetched")

    async def _take(self, response: ClientResponse, place: "_Place", stop: int) -> None:
        """Write a body to the disk as it comes."""
        while place.at < stop:
            async with asyncio.timeout(self._patience.stall_s):
                piece = await response.content.readany()
            if not piece:
                raise Failing(f"the connection ended {stop - place.at} bytes early")
            self._received += len(piece)
            piece = piece[: stop - place.at]
            await self._on_disk(lambda at=place.at, piece=piece: self._partial.write(at, piece))  # type: ignore[misc]  # a lambda's defaults
            place.at += len(piece)
            self._unsaved += len(piece)
            self._tell()
            if self._unsaved >= _SAVE_EVERY:
                self._unsaved = 0
                await self._on_disk(self._partial.save)

    async def _ask(self, headers: Mapping[str, str]) -> ClientResponse:
        return await self._origin.ask(headers)

    async def _patiently(self, work: Callable[[], Awaitable[T]], place: "_Place | None" = None) -> T:
        """Do ``work`` again after failures that pass by, as long as it gets anywhere."""
        failures, reached = 0, place.at if place else 0
        while True:
            try:
                return await work()
            except (Failing, ClientError, TimeoutError, OSError) as error:
                if place is not None and place.at > reached:
                    failures, reached = 0, place.at
                failures += 1
                if self._never_reached(error) and failures > self._patience.attempts_to_reach:
                    raise PullFailed(
                        f"{self._wanted.url} cannot be reached: {reason_of(error)}. Check the network and the address; "
                        "`[sources]` in the configuration names a mirror."
                    ) from error
                if failures > self._patience.attempts:
                    raise PullFailed(
                        f"fetching {self._wanted.url} failed {failures} times in a row: {reason_of(error)}. "
                        "What has arrived is kept; run the same command again to go on."
                    ) from error
                self._origin.forget()
                asked_s = error.retry_after_s if isinstance(error, Failing) else None
                await self._patience.sleep(self._patience.pause_s(failures, asked_s=asked_s))

    def _never_reached(self, error: BaseException) -> bool:
        return isinstance(error, ClientConnectorError) and not self._received and not self._partial.ranges.total

    async def _finish(self) -> Fetched:
        digest = await self._on_disk(self._partial.sha256)
        expected = self._wanted.sha256
        if expected is not None and not hmac.compare_digest(digest, expected.lower()):
            await self._on_disk(self._partial.discard)
            raise PullFailed(
                f"what {self._wanted.url} sent is damaged: its sha256 is {digest}, and the hub says {expected}. "
                "It was thrown away; run the same command again, or use another mirror."
            )
        await self._on_disk(self._partial.finish)
        self._report(self._size, self._size)
        return Fetched(self._wanted.target, self._size, digest, self._received, self._kept)

    def _tell(self) -> None:
        self._report(self._partial.ranges.total, self._size)

    def _close(self) -> None:
        try:
            if self._partial.path.exists():
                self._partial.save()
        except LaneError:
            # The disk is full: the older note beside the file is still true.
            return
        finally:
            self._partial.close()

    async def _on_disk(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)


@dataclass(slots=True)
class _Place:
    """How far a part has come."""

    at: int


def _hash_of(path: Path, size: int | None) -> tuple[int, str] | None:
    try:
        with path.open("rb") as file:
            found = path.stat().st_size
            if size is not None and found != size:
                return None
            return found, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
