"""Pulls by the daemon as a process: killed, joined, left, cancelled, on a full disk, and asked for by `run`."""

import json
import random
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from blazar_stubs import write_stub_model
from blazar_supervisor.testing.hub import Fault, FaultyHub, HubFile, running_hub
from e2e.daemon import Daemon, running_daemon
from e2e.home import Home
from e2e.served import add_stub_engine, serving
from e2e.waiting import eventually

REPOSITORY = "someone/tiny-GGUF"
MODEL = f"{REPOSITORY}:Q4_K_M"
MIB = 1 << 20
PROBE = 16
"""Bytes that are asked for first, to see what the server does."""
SAVED_EVERY = 16 * MIB
"""After so many bytes it is written down which of them are there; what came since is fetched again after a kill."""


@pytest.fixture
def hub() -> Iterator[FaultyHub]:
    with running_hub() as hub:
        yield hub


@pytest.fixture
def puller(home: Home, hub: FaultyHub) -> Home:
    """A home with an engine, whose hub is on the loopback."""
    add_stub_engine(home)
    home.configure(f'[sources]\nhub = "{hub.base_url}"\n')
    return home


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model that the stub serves."""
    return write_stub_model(tmp_path_factory.mktemp("tiny") / "tiny.gguf").path.read_bytes()


@pytest.fixture(scope="module")
def big(tiny: bytes) -> bytes:
    """The same with 40 MiB of what an engine does not look at: two ranges, and more than is written down at once."""
    return tiny + random.Random(40).randbytes(40 * MIB - len(tiny))


def pulls(daemon: Daemon) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = daemon.client.get("/api/pull").json()["pulls"]
    return listed


def held_at(daemon: Daemon, done: int) -> None:
    """Wait until a pull has come as far as the hub lets it."""
    eventually(lambda: any(one["completed"] >= done for one in pulls(daemon)), what=f"{done} bytes have come")


def let_go(hub: FaultyHub, file: HubFile) -> HubFile:
    """Have the hub go on with what it held back, and serve well; return what counts further requests."""
    fresh = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", file.content)
    hub.released.set()
    return fresh


def begin(daemon: Daemon, reference: str = MODEL) -> None:
    """Ask for a pull, and leave once it has begun: it goes on."""
    with daemon.client.open("POST", "/api/pull", {"model": reference}) as response:
        assert b"pulling manifest" in response.readline()


def weights(home: Home) -> Path:
    (path,) = (home.data_dir / "models").rglob("*.gguf")
    return path


@pytest.mark.promise("pull:survives-kill")
def test_a_daemon_that_is_killed_in_the_middle_goes_on_where_it_had_written_it_down(
    puller: Home, hub: FaultyHub, big: bytes
) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", big, Fault.STALLS)
    with serving(puller) as daemon:
        begin(daemon)
        # Half of each range comes, and then nothing.
        held_at(daemon, len(big) // 2)
        daemon.signal(signal.SIGKILL)
        daemon.process.wait(60)
    assert not list((puller.data_dir / "models").rglob("[!.]*.gguf"))
    again = let_go(hub, file)
    with serving(puller) as daemon:
        answer = daemon.client.post("/api/pull", {"model": MODEL, "stream": False})
        assert answer.json()["status"] == "success", answer.text()
    assert weights(puller).read_bytes() == big
    # 20 MiB had come and at least 16 were written down: so much was not fetched a second time.
    fetched_twice = again.sent - PROBE - len(big) // 2
    assert 0 <= fetched_twice <= len(big) // 2 - SAVED_EVERY


@pytest.mark.promise("pull:survives-client")
def test_a_client_that_leaves_at_the_last_byte_gets_its_model_all_the_same(
    puller: Home, hub: FaultyHub, big: bytes
) -> None:
    hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", big)
    with serving(puller) as daemon:
        with daemon.client.open("POST", "/api/pull", {"model": MODEL}) as response:
            seen = []
            for line in response:
                seen.append(json.loads(line))
                if seen[-1].get("completed") == len(big) or seen[-1]["status"] == "success":
                    break
        assert "error" not in str(seen)
        eventually(lambda: MODEL in str(daemon.client.get("/v1/models").json()), what="the model is there")
        assert weights(puller).read_bytes() == big


@pytest.mark.promise("pull:joined")
def test_clients_by_any_name_of_a_file_share_one_download(puller: Home, hub: FaultyHub, big: bytes) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", big, Fault.STALLS)
    names = [MODEL, f"hf.co/{MODEL}", f"{REPOSITORY}:tiny-Q4_K_M.gguf"]
    with serving(puller) as daemon, ThreadPoolExecutor(len(names)) as clients:
        begin(daemon)
        held_at(daemon, len(big) // 2)
        asked = [
            clients.submit(daemon.client.post, "/api/pull", {"model": name, "stream": False}) for name in names[1:]
        ]
        eventually(lambda: len(pulls(daemon)) == len(names), what="all have asked")
        eventually(lambda: all(one["total"] == len(big) for one in pulls(daemon)), what="all know what it is")
        again = let_go(hub, file)
        for answer in asked:
            assert answer.result(120).json() == {"status": "success", "model": MODEL}
        assert [row["name"] for row in puller.json("models", "list")] == [MODEL]
        assert weights(puller).read_bytes() == big
    # What was held back went on; nobody asked for any of it again.
    assert again.requests == 0


@pytest.mark.promise("pull:ollama")
def test_progress_in_ollamas_lines_never_runs_backwards(puller: Home, hub: FaultyHub, big: bytes) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", big, Fault.RESETS_NEAR_END, times=3)
    with serving(puller) as daemon:
        lines = [json.loads(line) for line in daemon.client.post("/api/pull", {"name": MODEL}).body.splitlines()]
    assert lines[0] == {"status": "pulling manifest"}
    assert [line["status"] for line in lines[-3:]] == ["verifying sha256 digest", "writing manifest", "success"]
    moving = lines[1:-3]
    assert {line["status"] for line in moving} == {f"pulling {file.sha256[:12]}"}
    assert {line["digest"] for line in moving} == {f"sha256:{file.sha256}"}
    figures = [line["completed"] for line in moving]
    assert figures == sorted(figures)
    assert {line["total"] for line in moving} == {len(big)}


@pytest.mark.promise("pull:list-cancel")
def test_pulls_are_listed_and_cancelled_from_another_terminal(puller: Home, hub: FaultyHub, big: bytes) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", big, Fault.STALLS)
    with serving(puller) as daemon:
        begin(daemon)
        held_at(daemon, len(big) // 2)
        (listed,) = puller.json("pull", "--list")
        assert (listed["reference"], listed["status"], listed["total"]) == (MODEL, "downloading", len(big))
        assert MODEL in puller.ok("pull", "--list")
        assert f"Cancelled the pull of {MODEL}." in puller.ok("pull", "--cancel", MODEL)
        eventually(lambda: pulls(daemon)[0]["status"] == "cancelled", what="the pull has ended")
        assert "goes on with it" in pulls(daemon)[0]["error"]
        assert "No pull of" in puller.ok("pull", "--cancel", MODEL)
        again = let_go(hub, file)
        assert MODEL in puller.ok("pull", MODEL)
        # What was cancelled is written down to the last byte.
        assert again.sent == len(big) // 2 + PROBE


@pytest.fixture
def small_disk(puller: Home) -> Iterator[Path]:
    """The models directory on a file system of 128 MiB of its own."""
    directory = puller.data_dir / "models"
    directory.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", directory], capture_output=True, timeout=30, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a file system of its own can be mounted by root on Linux only")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", directory], timeout=30, check=True)


def fill_up(filler: Path) -> None:
    with filler.open("wb") as out:
        while True:
            out.write(bytes(MIB))


@pytest.mark.promise("pull:full-disk")
def test_a_disk_that_becomes_full_costs_nothing_that_had_come(
    puller: Home, hub: FaultyHub, big: bytes, small_disk: Path
) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", big, Fault.STALLS)
    filler = small_disk / "filler"
    with serving(puller) as daemon:
        begin(daemon)
        held_at(daemon, len(big) // 2)
        with pytest.raises(OSError, match="No space left"):
            fill_up(filler)
        again = let_go(hub, file)
        failed = eventually(lambda: [one for one in pulls(daemon) if one["status"] == "failed"], what="it has failed")
        assert "there is no room for" in failed[0]["error"]
        assert not list(small_disk.rglob("[!.]*.gguf"))
        filler.unlink()
        answer = daemon.client.post("/api/pull", {"model": MODEL, "stream": False})
        assert answer.json()["status"] == "success", answer.text()
        assert weights(puller).read_bytes() == big
        # What was written down before the disk was full is still there.
        assert again.sent <= len(big) - SAVED_EVERY + PROBE


def run(home: Home, reference: str = REPOSITORY) -> "subprocess.CompletedProcess[str]":
    return home.blazar("run", reference, "hello")


@pytest.mark.promise("pull:run")
def test_run_by_repository_says_what_to_do_while_the_daemon_is_down(puller: Home, hub: FaultyHub, tiny: bytes) -> None:
    hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", tiny)
    ended = run(puller)
    assert ended.returncode == 5
    assert "Start it with `blazar serve`" in ended.stderr
    assert hub.listings == 0


@pytest.mark.promise("pull:run")
def test_run_by_repository_takes_the_best_that_fits_says_why_and_asks_it(
    puller: Home, hub: FaultyHub, tiny: bytes
) -> None:
    for label in ("Q4_K_M", "Q8_0"):
        hub.add(REPOSITORY, f"tiny-{label}.gguf", tiny)
    with serving(puller):
        first = run(puller)
        assert first.returncode == 0, first.stderr
        assert first.stdout.strip() == "You said: hello"
        assert f"Pulling {REPOSITORY}:Q8_0: Q8_0 is the best quality that fits this machine" in first.stderr
        before = hub.listings
        second = run(puller)
        assert second.stdout.strip() == "You said: hello"
        assert "Pulling" not in second.stderr
        assert hub.listings == before


@pytest.mark.promise("pull:run")
def test_run_joins_a_pull_that_is_on_its_way(puller: Home, hub: FaultyHub, big: bytes) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", big, Fault.STALLS)
    with serving(puller) as daemon, ThreadPoolExecutor(2) as terminals:
        begin(daemon)
        held_at(daemon, len(big) // 2)
        asked = [terminals.submit(run, puller, reference) for reference in (MODEL, f"hf.co/{MODEL}")]
        eventually(lambda: len(pulls(daemon)) == 2, what="both ask for it")
        again = let_go(hub, file)
        for ended in (one.result(120) for one in asked):
            assert ended.returncode == 0, ended.stderr
            assert ended.stdout.strip() == "You said: hello"
        # The range that was held back went on; nothing was asked for a second time.
        assert again.requests == 0
        assert len(daemon.client.get("/v1/models").json()["data"]) == 1


@pytest.mark.promise("pull:token")
def test_the_hub_and_its_token_come_from_the_environment(home: Home, hub: FaultyHub, tiny: bytes) -> None:
    hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", tiny)
    with running_daemon(home, env={"HF_ENDPOINT": hub.base_url, "HF_TOKEN": "hf_secret"}) as daemon:
        assert daemon.client.post("/api/pull", {"model": MODEL, "stream": False}).status == 200
        assert "hf_secret" not in daemon.log()
    own = {token for path, token in hub.tokens if "/resolve/" in path}
    assert own == {"Bearer hf_secret"}
