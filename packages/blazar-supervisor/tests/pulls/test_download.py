"""Downloads against a server that misbehaves: what is on disk afterwards, byte for byte."""

import asyncio
import hashlib
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from blazar_routing.errors import LaneError, PullFailed, PullNotFound, PullRefused
from blazar_supervisor.pulls.addresses import AddressPolicy
from blazar_supervisor.pulls.connection import open_session
from blazar_supervisor.pulls.download import Downloader, Fetched, Wanted
from blazar_supervisor.pulls.patience import Patience
from blazar_supervisor.testing.hub import Fault, FaultyHub, HubFile, running_hub

CHUNK = 64 << 10
CONTENT = b"GGUF" + random.Random(9).randbytes(1_000_003)
REPOSITORY = "someone/some-GGUF"
NAME = "some-Q4_K_M.gguf"
DEADLINE_S = 60


def unheard(done: int, total: int) -> None:
    """Listen to no progress."""
    del done, total


async def no_sleep(seconds: float) -> None:
    del seconds
    await asyncio.sleep(0)


QUICK = Patience(sleep=no_sleep, stall_s=20.0, dice=lambda: 0.5)


@pytest.fixture
def hub() -> Iterator[FaultyHub]:
    with running_hub() as hub:
        yield hub


@asynccontextmanager
async def downloader(hub: FaultyHub, patience: Patience = QUICK) -> AsyncIterator[Downloader]:
    policy = AddressPolicy.of_sources([hub.base_url])
    async with open_session(policy) as session:
        yield Downloader(session, policy, patience, parallel=3, chunk=CHUNK)


def wanted_of(hub: FaultyHub, file: HubFile, target: Path) -> Wanted:
    return Wanted(hub.url(REPOSITORY, NAME), target, len(file.content), file.sha256, magic=b"GGUF")


async def fetch(hub: FaultyHub, wanted: Wanted, patience: Patience = QUICK) -> tuple[Fetched, list[int]]:
    seen: list[int] = []
    async with downloader(hub, patience) as one, asyncio.timeout(DEADLINE_S):
        return await one.fetch(wanted, lambda done, _: seen.append(done)), seen


def left_over(target: Path) -> set[str]:
    return {path.name for path in target.parent.iterdir()} - {target.name}


@pytest.mark.parametrize(
    ("fault", "times", "twice_at_most"),
    [
        pytest.param(Fault.NONE, 0, 0, id="nothing-wrong"),
        pytest.param(Fault.SLOW, 1, 0, id="slow"),
        pytest.param(Fault.RANGES_IGNORED, 10**9, CHUNK, id="ranges-ignored"),
        pytest.param(Fault.RANGE_REFUSED, 1, 3 * CHUNK, id="416-once"),
        pytest.param(Fault.WRONG_RANGE, 1, 3 * CHUNK, id="wrong-range-once"),
        pytest.param(Fault.WRONG_RANGE, 2, len(CONTENT), id="wrong-range-twice"),
        pytest.param(Fault.TRUNCATED, 5, 0, id="truncated"),
        pytest.param(Fault.RESETS_NEAR_END, 10, 0, id="reset-at-99-percent-ten-times"),
        pytest.param(Fault.LINK_EXPIRES, 4, 0, id="redirect-expires"),
        pytest.param(Fault.OVERLOADED, 6, 0, id="overloaded"),
    ],
)
async def test_a_file_arrives_whole_whatever_happens_on_the_way(
    hub: FaultyHub, tmp_path: Path, fault: Fault, times: int, twice_at_most: int
) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT, fault, times=times)
    target = tmp_path / "models" / NAME
    fetched, seen = await fetch(hub, wanted_of(hub, file, target))
    assert target.read_bytes() == CONTENT
    assert fetched.sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert not left_over(target)
    assert fetched.received - len(CONTENT) <= twice_at_most
    assert seen[-1] == len(CONTENT)


async def test_a_file_that_changes_in_the_middle_is_fetched_anew_and_never_mixed(
    hub: FaultyHub, tmp_path: Path
) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT, Fault.TAG_CHANGES, times=1)
    target = tmp_path / NAME
    await fetch(hub, replace(wanted_of(hub, file, target), sha256=None))
    assert target.read_bytes() == file.content != CONTENT


async def test_a_stalled_part_is_given_up_and_only_its_rest_is_asked_for_again(hub: FaultyHub, tmp_path: Path) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT, Fault.STALLS, times=1)
    target = tmp_path / NAME
    fetched, _ = await fetch(hub, wanted_of(hub, file, target), replace(QUICK, stall_s=1.0))
    assert target.read_bytes() == CONTENT
    assert fetched.received == len(CONTENT)


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        pytest.param(Fault.WRONG_CONTENT, PullFailed, "its sha256 is", id="wrong-hash"),
        pytest.param(Fault.EMPTY, PullFailed, "sent an empty file", id="empty-body"),
        pytest.param(Fault.PORTAL, PullFailed, "captive portal", id="captive-portal"),
        pytest.param(Fault.WRONG_RANGE, PullFailed, "the listing says", id="always-another-range"),
        pytest.param(Fault.OVERLOADED, PullFailed, "failed 13 times in a row", id="always-overloaded"),
        pytest.param(Fault.PRIVATE_REDIRECT, PullRefused, "is not https", id="redirect-to-another-private-host"),
    ],
)
async def test_what_cannot_be_had_leaves_the_final_name_alone(
    hub: FaultyHub, tmp_path: Path, fault: Fault, error: type[LaneError], says: str
) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT, fault)
    target = tmp_path / NAME
    target.write_bytes(b"what was there before")
    with pytest.raises(error, match=says):
        await fetch(hub, wanted_of(hub, file, target))
    assert target.read_bytes() == b"what was there before"
    assert hub.canary == 0


async def test_a_login_page_in_the_middle_does_not_cost_what_had_arrived(hub: FaultyHub, tmp_path: Path) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT)
    target = tmp_path / NAME
    await interrupted(hub, wanted_of(hub, file, target))
    file.fault, file.times = Fault.PORTAL, 10**9
    with pytest.raises(PullFailed, match="captive portal"):
        await fetch(hub, wanted_of(hub, file, target))
    file.fault = Fault.NONE
    fetched, _ = await fetch(hub, wanted_of(hub, file, target))
    assert fetched.kept > 0
    assert fetched.kept + fetched.received == len(CONTENT)
    assert target.read_bytes() == CONTENT


async def interrupted(hub: FaultyHub, wanted: Wanted) -> None:
    """Fetch, and be cancelled about half-way."""
    half = asyncio.Event()
    async with downloader(hub) as one, asyncio.timeout(DEADLINE_S):
        task = asyncio.create_task(one.fetch(wanted, lambda done, total: half.set() if done * 2 > total else None))
        await half.wait()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert not wanted.target.exists()


async def test_a_cancelled_download_goes_on_where_it_stopped(hub: FaultyHub, tmp_path: Path) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT)
    target = tmp_path / NAME
    await interrupted(hub, wanted_of(hub, file, target))
    fetched, _ = await fetch(hub, wanted_of(hub, file, target))
    assert target.read_bytes() == CONTENT
    assert fetched.kept >= len(CONTENT) // 2
    assert fetched.kept + fetched.received == len(CONTENT)


@pytest.mark.parametrize(
    ("ranges", "fault"),
    [
        pytest.param("kept", Fault.NONE, id="same-file"),
        pytest.param("dropped", Fault.RANGES_IGNORED, id="server-ignores-ranges-now"),
        pytest.param("dropped", Fault.TAG_CHANGES, id="new-tag"),
    ],
)
async def test_what_an_earlier_run_left_is_used_only_for_the_very_same_file(
    hub: FaultyHub, tmp_path: Path, ranges: str, fault: Fault
) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT)
    target = tmp_path / NAME
    await interrupted(hub, wanted_of(hub, file, target))
    if fault is Fault.TAG_CHANGES:
        file.content, file.etag = CONTENT[::-1].replace(CONTENT[::-1][:4], b"GGUF", 1), '"new"'
    else:
        file.fault = fault
    fetched, _ = await fetch(hub, replace(wanted_of(hub, file, target), sha256=file.sha256))
    assert target.read_bytes() == file.content
    assert (fetched.kept > 0) is (ranges == "kept")


async def test_a_state_file_that_claims_too_much_is_not_believed(hub: FaultyHub, tmp_path: Path) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT)
    target = tmp_path / NAME
    await interrupted(hub, wanted_of(hub, file, target))
    with (tmp_path / f".{NAME}.partial").open("r+b") as partial:
        partial.truncate(10)
    fetched, _ = await fetch(hub, wanted_of(hub, file, target))
    assert fetched.kept == 0
    assert target.read_bytes() == CONTENT


async def test_a_full_disk_is_noticed_before_the_first_byte(hub: FaultyHub, tmp_path: Path) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT)
    async with downloader(hub) as one:
        small = replace(one, free_bytes=lambda _: 1 << 20)
        with pytest.raises(PullFailed, match="there is no room"):
            await small.fetch(wanted_of(hub, file, tmp_path / NAME), unheard)
    assert file.sent <= 16


async def test_two_fetchers_of_one_file_fetch_it_once(hub: FaultyHub, tmp_path: Path) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT)
    wanted = wanted_of(hub, file, tmp_path / NAME)
    async with downloader(hub) as one, downloader(hub) as two, asyncio.timeout(DEADLINE_S):
        both = await asyncio.gather(*(each.fetch(wanted, unheard) for each in (one, two)))
    assert sorted(each.received for each in both) == [0, len(CONTENT)]
    assert not left_over(wanted.target)


async def test_a_file_that_is_there_is_hashed_and_not_fetched(hub: FaultyHub, tmp_path: Path) -> None:
    file = hub.add(REPOSITORY, NAME, CONTENT)
    target = tmp_path / NAME
    target.write_bytes(CONTENT)
    fetched, _ = await fetch(hub, wanted_of(hub, file, target))
    assert fetched.received == 0
    assert file.requests == 0


async def test_a_token_goes_to_its_own_host_only(hub: FaultyHub, tmp_path: Path) -> None:
    with running_hub() as mirror:
        file = hub.add(REPOSITORY, NAME, CONTENT)
        mirror.add(REPOSITORY, NAME, CONTENT)
        hub.cdn_base = mirror.base_url
        wanted = replace(wanted_of(hub, file, tmp_path / NAME), headers={"Authorization": "Bearer secret"})
        policy = AddressPolicy.of_sources([hub.base_url, mirror.base_url])
        async with open_session(policy) as session:
            await Downloader(session, policy, QUICK).fetch(wanted, unheard)
        assert {token for _, token in hub.tokens} == {"Bearer secret"}
        assert {token for _, token in mirror.tokens} == {None}


async def test_a_file_that_is_not_there_says_so(hub: FaultyHub, tmp_path: Path) -> None:
    hub.add(REPOSITORY, NAME, CONTENT)
    with pytest.raises(PullNotFound, match="Check the name"):
        await fetch(hub, Wanted(hub.url(REPOSITORY, "other.gguf"), tmp_path / "x"))


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("https://localhost:1/x.gguf", id="name-that-resolves-to-loopback"),
        pytest.param("https://127.0.0.1:1/x.gguf", id="loopback"),
        pytest.param("https://2130706433:1/x.gguf", id="loopback-as-a-number"),
        pytest.param("https://127.1:1/x.gguf", id="short-loopback"),
        pytest.param("https://[::ffff:127.0.0.1]:1/x.gguf", id="loopback-dressed-as-ipv6"),
        pytest.param("https://169.254.169.254/latest/x.gguf", id="link-local"),
        pytest.param("http://example.org/x.gguf", id="not-https"),
        pytest.param("file:///etc/passwd", id="file"),
    ],
)
async def test_addresses_in_the_private_network_are_not_connected_to(hub: FaultyHub, tmp_path: Path, url: str) -> None:
    with pytest.raises(PullRefused, match="Nothing was fetched"):
        await fetch(hub, Wanted(url, tmp_path / "x.gguf"))
    assert hub.canary == 0


async def test_no_network_is_said_after_a_few_tries(hub: FaultyHub, tmp_path: Path) -> None:
    pauses: list[float] = []

    async def count(seconds: float) -> None:
        pauses.append(seconds)

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        base_url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        policy = AddressPolicy.of_sources([base_url])
        async with open_session(policy) as session, asyncio.timeout(DEADLINE_S):
            with pytest.raises(PullFailed, match="cannot be reached"):
                await Downloader(session, policy, replace(QUICK, sleep=count)).fetch(
                    Wanted(f"{base_url}/m.gguf", tmp_path / "m.gguf", 10, None, magic=b"GGUF"), lambda *_: None
                )
    assert len(pauses) == QUICK.attempts_to_reach
