"""From a name to files: what is taken, what is refused, and jobs that outlive their listeners. A hub on the loopback."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from blazar_budget import Memory
from blazar_gguf.testing import tiny_model
from blazar_routing.errors import LaneError, PullFailed, PullNotFound, PullRefused
from blazar_supervisor.pulls.addresses import AddressPolicy
from blazar_supervisor.pulls.choosing import Fits
from blazar_supervisor.pulls.connection import open_session
from blazar_supervisor.pulls.download import Downloader
from blazar_supervisor.pulls.hub import Hub
from blazar_supervisor.pulls.jobs import PullJobs, PullPhase, PullView, Telling
from blazar_supervisor.pulls.patience import Patience
from blazar_supervisor.pulls.pulling import Puller, place_below, resolve_reference
from blazar_supervisor.pulls.reference import HubReference
from blazar_supervisor.pulls.short_names import find_known, known_models, search_known
from blazar_supervisor.testing.hub import Fault, FaultyHub, running_hub

REPOSITORY = "someone/tiny-GGUF"
GIB = 1 << 30
DEADLINE_S = 60


@pytest.fixture
def hub() -> Iterator[FaultyHub]:
    with running_hub() as hub:
        yield hub


def gguf(size: int) -> bytes:
    """Return a readable GGUF file, padded to ``size``."""
    whole = tiny_model("llama").to_bytes()
    return whole + random.Random(size).randbytes(max(0, size - len(whole)))


def ggufs_in(directory: Path) -> list[Path]:
    """Return the files that have their final names."""
    return sorted(directory.rglob("[!.]*.gguf"))


@asynccontextmanager
async def puller(hub: FaultyHub, directory: Path, memory: Memory | None = None) -> AsyncIterator[Puller]:
    policy = AddressPolicy.of_sources([hub.base_url])
    async with open_session(policy) as session:
        downloader = Downloader(session, policy, Patience(first_s=0.001, longest_s=0.01))
        yield Puller(Hub(hub.base_url), downloader, directory, lambda: memory)


async def test_the_best_quality_that_fits_is_taken_and_said_why(hub: FaultyHub, tmp_path: Path) -> None:
    for label, size in (("Q2_K", 1 << 20), ("Q4_K_M", 2 << 20), ("Q8_0", 4 << 20)):
        hub.add(REPOSITORY, f"tiny-{label}.gguf", gguf(size))
    async with puller(hub, tmp_path, Memory(16 * GIB)) as one:
        plan = await one.plan(REPOSITORY)
        shelf = await one.look(HubReference(REPOSITORY))
    assert plan.name == f"{REPOSITORY}:Q8_0"
    assert "the best quality that fits" in plan.reason
    assert [judged.fits for judged in shelf.judged] == [Fits.YES] * 3


async def test_nothing_is_taken_by_itself_that_does_not_fit(hub: FaultyHub, tmp_path: Path) -> None:
    hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", gguf(1 << 20))
    hub.add(REPOSITORY, "tiny-Q8_0.gguf", gguf(2 << 20))
    async with puller(hub, tmp_path, Memory(GIB // 8)) as one:
        with pytest.raises(
            PullRefused, match=r"nothing in the repository fits(.|\n)*blazar pull someone/tiny-GGUF:Q4_K_M"
        ):
            await one.plan(REPOSITORY)


async def test_a_variant_comes_with_its_projector_and_under_the_models_directory(
    hub: FaultyHub, tmp_path: Path
) -> None:
    first = hub.add(REPOSITORY, "Q4/tiny-Q4_K_M-00001-of-00002.gguf", gguf(1 << 20))
    second = hub.add(REPOSITORY, "Q4/tiny-Q4_K_M-00002-of-00002.gguf", gguf(2 << 20))
    eyes = hub.add(REPOSITORY, "mmproj-F16.gguf", gguf(3 << 20))
    figures: list[tuple[int, int]] = []
    async with puller(hub, tmp_path) as one:
        plan = await one.plan(f"hf.co/{REPOSITORY}:q4_k_m")
        pulled = await one.pull(plan, lambda done, total: figures.append((done, total)))
    assert [file.path.read_bytes() for file in pulled.files] == [one.content for one in (first, second, eyes)]
    assert all(file.path.is_relative_to(tmp_path / "someone" / "tiny-GGUF") for file in pulled.files)
    assert plan.projector == pulled.files[-1].path
    assert figures[-1] == (6 << 20, 6 << 20)


@pytest.mark.parametrize(
    ("reference", "error", "says"),
    [
        pytest.param("nobody/nothing", PullNotFound, "no repository 'nobody/nothing'", id="no-such-repository"),
        pytest.param(f"{REPOSITORY}:Q5_K_M", PullNotFound, "It offers: Q4_K_M, Q8_0", id="no-such-variant"),
        pytest.param(f"{REPOSITORY}:Q8_0", PullRefused, "parts missing", id="incomplete-set"),
        pytest.param("gema3:270m", PullRefused, "Near it: gemma3:270m", id="unknown-short-name"),
        pytest.param("file:///etc/passwd", PullRefused, "only https", id="file"),
        pytest.param("http://127.0.0.1:1/x.gguf", PullRefused, "only https", id="plain-http"),
        pytest.param("127.0.0.1:8080/x/y", PullRefused, "names nothing", id="host-as-a-name"),
        pytest.param("a/../../b", PullRefused, "names nothing", id="upwards"),
    ],
)
async def test_what_is_refused_is_refused_before_anything_is_fetched(
    hub: FaultyHub, tmp_path: Path, reference: str, error: type[LaneError], says: str
) -> None:
    hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", gguf(1 << 20))
    hub.add(REPOSITORY, "tiny-Q8_0-00001-of-00003.gguf", gguf(1 << 20))
    async with puller(hub, tmp_path) as one:
        with pytest.raises(error, match=says):
            await one.plan(reference)
    assert not ggufs_in(tmp_path)
    assert all(file.requests == 0 for file in hub.files[REPOSITORY].values())


async def test_a_choice_that_means_two_things_lists_them(hub: FaultyHub, tmp_path: Path) -> None:
    for folder in ("chat", "code"):
        hub.add(REPOSITORY, f"{folder}/tiny-Q4_K_M.gguf", gguf(1 << 20))
    async with puller(hub, tmp_path) as one:
        with pytest.raises(PullRefused, match="is 2 things in someone/tiny-GGUF") as caught:
            await one.plan(f"{REPOSITORY}:Q4_K_M")
        text = str(caught.value)
        assert "chat/tiny-Q4_K_M.gguf, code/tiny-Q4_K_M.gguf" in text
        # What is proposed can be typed.
        (command,) = re.findall(r"`blazar pull ([^`]*)`", text)
        plan = await one.plan(command)
    assert plan.wanted[0].target == tmp_path / "someone" / "tiny-GGUF" / "chat" / "tiny-Q4_K_M.gguf"


async def test_a_direct_address_goes_below_its_host(hub: FaultyHub, tmp_path: Path) -> None:
    async with puller(hub, tmp_path) as one:
        plan = await one.plan("https://user-files.example:8443/a/b/model.gguf?token=x")
        (wanted,) = plan.wanted
    assert wanted.target.parent.parent == tmp_path
    assert wanted.target.name == "model.gguf"
    assert wanted.magic == b"GGUF"
    assert plan.name is None


def test_a_repository_without_models_says_so(hub: FaultyHub, tmp_path: Path) -> None:
    hub.add(REPOSITORY, "README.md", b"nothing here")

    async def look() -> None:
        async with puller(hub, tmp_path) as one:
            await one.look(HubReference(REPOSITORY))

    with pytest.raises(PullNotFound, match="holds no model"):
        asyncio.run(look())


@pytest.mark.parametrize("path", ["../x.gguf", "/etc/x.gguf", "a/../../x.gguf", "a\\..\\x.gguf", ""])
def test_no_file_name_of_a_repository_leaves_its_directory(tmp_path: Path, path: str) -> None:
    with pytest.raises(PullRefused, match="would leave"):
        place_below(tmp_path, path)


# Jobs


def jobs_of(hub: FaultyHub, directory: Path) -> PullJobs:
    async def work(reference: str, telling: Telling) -> str:
        async with puller(hub, directory) as one:
            plan = await one.plan(reference)
            telling.planned(plan)
            await one.pull(plan, telling.progress)
            return plan.name or reference

    return PullJobs(work)


async def last_of(jobs: PullJobs, reference: str) -> list[PullView]:
    async with asyncio.timeout(DEADLINE_S):
        return [view async for view in jobs.follow(reference)]


async def until_bytes_came(jobs: PullJobs, reference: str) -> None:
    async with asyncio.timeout(DEADLINE_S), aclosing(jobs.follow(reference)) as views:  # type: ignore[type-var]  # a generator
        async for view in views:
            if view.done_bytes:
                return


async def test_a_second_client_joins_and_the_file_is_fetched_once(hub: FaultyHub, tmp_path: Path) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", gguf(3 << 20), Fault.SLOW, times=1)
    jobs = jobs_of(hub, tmp_path)
    both = await asyncio.gather(last_of(jobs, REPOSITORY), last_of(jobs, REPOSITORY))
    assert [views[-1].phase for views in both] == [PullPhase.SUCCESS] * 2
    # One header is not read: the machine's memory is unknown here.
    assert file.sent == len(file.content) + 16
    await jobs.close()


@pytest.mark.parametrize(
    "second", [f"{REPOSITORY}:Q4_K_M", f"hf.co/{REPOSITORY}", f"{REPOSITORY}:tiny-Q4_K_M.gguf", f" {REPOSITORY}"]
)
async def test_another_reference_to_the_same_file_joins_as_one_job(hub: FaultyHub, tmp_path: Path, second: str) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", gguf(3 << 20), Fault.SLOW, times=1)
    jobs = jobs_of(hub, tmp_path)
    await until_bytes_came(jobs, REPOSITORY)
    both = await asyncio.gather(last_of(jobs, REPOSITORY), last_of(jobs, second))
    assert [views[-1].phase for views in both] == [PullPhase.SUCCESS] * 2
    assert both[0][-1].name == both[1][-1].name
    figures = [view.done_bytes for view in both[1]]
    assert figures == sorted(figures)
    assert figures[-1] == len(file.content)
    assert file.sent == len(file.content) + 16
    assert [path.read_bytes() for path in ggufs_in(tmp_path)] == [file.content]
    await jobs.close()


async def test_a_joined_pull_is_cancelled_with_the_one_it_joined(hub: FaultyHub, tmp_path: Path) -> None:
    hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", gguf(3 << 20), Fault.STALLS)
    jobs = jobs_of(hub, tmp_path)
    joined = f"{REPOSITORY}:Q4_K_M"
    await until_bytes_came(jobs, REPOSITORY)
    first = asyncio.create_task(last_of(jobs, REPOSITORY))
    async with asyncio.timeout(DEADLINE_S):
        async for view in jobs.follow(joined):
            if view.phase is PullPhase.DOWNLOADING:
                assert jobs.cancel(joined)
        assert (await first)[-1].phase is PullPhase.CANCELLED
    assert {view.phase for view in jobs.states()} == {PullPhase.CANCELLED}
    await jobs.close()


async def test_a_pull_goes_on_without_its_client_and_never_runs_backwards(hub: FaultyHub, tmp_path: Path) -> None:
    hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", gguf(3 << 20), Fault.RESETS_NEAR_END, times=3)
    jobs = jobs_of(hub, tmp_path)
    async with asyncio.timeout(DEADLINE_S), aclosing(jobs.follow(REPOSITORY)) as views:  # type: ignore[type-var]  # a generator
        async for view in views:
            if view.phase is PullPhase.DOWNLOADING:
                break
    seen = await last_of(jobs, REPOSITORY)
    assert seen[-1].phase is PullPhase.SUCCESS
    done = [view.done_bytes for view in seen]
    assert done == sorted(done)
    assert done[-1] == 3 << 20
    await jobs.close()


async def test_a_cancelled_pull_ends_for_all_and_goes_on_when_asked_again(hub: FaultyHub, tmp_path: Path) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", gguf(3 << 20), Fault.STALLS, times=1)
    jobs = jobs_of(hub, tmp_path)
    async with asyncio.timeout(DEADLINE_S):
        async for view in jobs.follow(REPOSITORY):
            if view.done_bytes and not view.over:
                jobs.cancel(REPOSITORY)
        ended = jobs.states()[-1]
    assert ended.phase is PullPhase.CANCELLED
    assert isinstance(ended.error, PullFailed)
    assert not jobs.cancel(REPOSITORY)
    assert (await last_of(jobs, REPOSITORY))[-1].phase is PullPhase.SUCCESS
    assert [path.read_bytes() for path in ggufs_in(tmp_path)] == [file.content]
    await jobs.close()


async def test_a_pull_that_fails_tells_its_followers_why(hub: FaultyHub, tmp_path: Path) -> None:
    jobs = jobs_of(hub, tmp_path)
    last = (await last_of(jobs, "nobody/nothing"))[-1]
    assert last.phase is PullPhase.FAILED
    assert isinstance(last.error, PullNotFound)
    await jobs.close()


# The catalogue


def test_every_short_name_is_a_repository_and_is_found_by_itself() -> None:
    for model in known_models():
        reference, name = resolve_reference(model.name)
        assert (reference, name) == (HubReference(model.repository), model.name)
    assert len({model.name for model in known_models()}) == len(known_models()) >= 30


def test_a_family_means_its_first_entry_and_nothing_is_guessed() -> None:
    first = find_known("gemma3")
    assert first is not None
    assert first.name == "gemma3:270m"
    assert find_known("gemma3:9b") is None
    assert [model.name for model in search_known("embed 0.6b")] == ["qwen3-embedding:0.6b"]
