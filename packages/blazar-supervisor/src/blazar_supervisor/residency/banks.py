"""What engines had read of conversations, kept on disk from one life of a child to the next. Blocks.

::

    banks/<child>/_auto-<ctx>.json        what the bank is of, and its files
    banks/<child>/_auto-<ctx>-<slot>.bin  one slot's state, as the engine wrote it
    banks/<child>/_auto-<ctx>-<slot>.part being written

The engine takes a state of another context size without complaint, one of another model with the same shape too, and
aborts on one that is cut short. So a bank is opened only for the context, the build, the arguments and the very
weights that it was saved under, and only if every byte is as it was.
"""

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote

from blazar_routing.instances import model_of
from blazar_store.files import make_directory, write_whole
from blazar_store.layout import encode_name
from blazar_supervisor.engines.profile import Profile

LARGEST_BYTES = 512 << 20
"""A larger bank is dropped: reading it back would take longer than most prompts."""

_VERSION = 1
_CHUNK = 1 << 20
_VARYING = frozenset({"--cache-ram", "-cram"})
"""Flags whose value differs from start to start and says nothing of what is in a slot."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a bank is of.

    Attributes:
        ctx_tokens: The context it was saved under.
        fingerprint: Of everything else that shapes a slot's state.
    """

    ctx_tokens: int
    fingerprint: str

    @property
    def name(self) -> str:
        """The stem of its files."""
        return f"_auto-{self.ctx_tokens}"


@dataclass(frozen=True, slots=True)
class SavedSlot:
    """One slot's state.

    Attributes:
        slot: The slot's number.
        file: The file's name, in the child's folder.
        tokens: How many it holds.
        size: In bytes.
        crc: CRC-32 of the file: it guards against accidents, not against an enemy.
    """

    slot: int
    file: str
    tokens: int
    size: int
    crc: int


def mark_of(profile: Profile) -> Mark:
    """Return what a bank of a child with this profile is of. Looks at the weights' size and time, not at their bytes.

    Raises:
        OSError: The weights or the program are gone.
    """
    words = iter(profile.args)
    facts: list[object] = [profile.engine, profile.kind.value]
    for word in words:
        if word in _VARYING:
            next(words, None)
        else:
            facts.append(word)
    for path in (profile.program, *profile.weights):
        status = path.stat()
        facts += [str(path), status.st_size, status.st_mtime_ns]
    text = json.dumps(facts, default=str)
    return Mark(profile.ctx_tokens, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


class BankShelf:
    """Every bank under one directory.

    Args:
        root: The directory.
        cap_bytes: What all banks together may take; the oldest go first. Read at each save.
    """

    def __init__(self, root: Path, *, cap_bytes: Callable[[], int]) -> None:
        self._root = root
        self._cap_bytes = cap_bytes

    def folder(self, key: str) -> Path:
        """Return where a child's banks are."""
        return self._root / encode_name(key)

    def prepare(self, key: str) -> Path:
        """Create a child's folder, open to its owner alone: it will hold what was said.

        Raises:
            StoreError: It cannot be made.
        """
        folder = self.folder(key)
        make_directory(self._root)
        make_directory(folder, mode=0o700)
        return folder

    def open(self, key: str, mark: Mark) -> tuple[SavedSlot, ...]:
        """Return what was saved of a child under this very mark and is whole; what is not is removed."""
        folder = self.folder(key)
        saved = self._listed(folder, mark)
        if saved is None:
            self.drop(key, mark)
            return ()
        whole = [one for one in saved if _is_whole(folder / one.file, one)]
        for one in saved:
            if one not in whole:
                (folder / one.file).unlink(missing_ok=True)
        return tuple(whole)

    def put(self, key: str, mark: Mark, written: Iterable[tuple[int, int]], *, kept: Sequence[SavedSlot] = ()) -> int:
        """Keep what an engine has written as ``<mark>-<slot>.part``; return how many slots the bank has now.

        Args:
            key: The child's key.
            mark: What the bank is of.
            written: Slot numbers and their tokens.
            kept: Of the bank's present files, those that still hold.

        Raises:
            OSError: It cannot be written.
            StoreError: Likewise.
        """
        folder = self.folder(key)
        saved = [one for one in kept if (folder / one.file).exists()]
        for slot, tokens in written:
            part = folder / part_name(mark, slot)
            if not part.exists():
                continue
            size = part.stat().st_size
            if not tokens or size > LARGEST_BYTES:
                part.unlink()
                continue
            whole = folder / f"{mark.name}-{slot}.bin"
            part.replace(whole)
            saved = [one for one in saved if one.slot != slot]
            saved.append(SavedSlot(slot, whole.name, tokens, size, _crc(whole)))
        if not saved:
            self.drop(key, mark)
            return 0
        manifest = {"version": _VERSION, "fingerprint": mark.fingerprint, "slots": [asdict(one) for one in saved]}
        write_whole(folder / f"{mark.name}.json", json.dumps(manifest).encode(), mode=0o600)
        self._clear(folder, mark, {one.file for one in saved})
        self.keep_under_cap()
        return len(saved)

    def drop(self, key: str, mark: Mark) -> None:
        """Remove a child's bank of this context, whatever it is of."""
        folder = self.folder(key)
        with suppress(OSError):
            (folder / f"{mark.name}.json").unlink(missing_ok=True)
            self._clear(folder, mark, set())

    def sweep(self, models: Callable[[str], object | None]) -> None:
        """Remove what belongs to no model any more and what was left half written; keep the rest under the cap.

        Args:
            models: Finds a model by its name.
        """
        for folder in self._folders():
            key = _key_of(folder)
            if key is None or models(model_of(key)) is None:
                _remove_folder(folder)
                continue
            for part in folder.glob("*.part"):
                part.unlink(missing_ok=True)
        self.keep_under_cap()

    def discard(self, model: str) -> None:
        """Remove every bank of a model: what was said with it must not outlive it."""
        for folder in self._folders():
            key = _key_of(folder)
            if folder.name == encode_name(model) or (key is not None and model_of(key) == model):
                _remove_folder(folder)

    def keep_under_cap(self) -> None:
        """Remove the oldest banks until the others are within the cap."""
        banks = []
        for folder in self._folders():
            for manifest in folder.glob("_auto-*.json"):
                files = [manifest, *folder.glob(f"{manifest.stem}-*.bin")]
                with suppress(OSError):
                    sizes = [file.stat() for file in files]
                    banks.append((sizes[0].st_mtime_ns, sum(status.st_size for status in sizes), files))
        banks.sort(key=lambda bank: bank[0])
        excess = sum(size for _, size, _ in banks) - self._cap_bytes()
        for _, size, files in banks:
            if excess <= 0:
                return
            excess -= size
            for file in files:
                with suppress(OSError):
                    file.unlink(missing_ok=True)

    def _listed(self, folder: Path, mark: Mark) -> list[SavedSlot] | None:
        try:
            manifest = json.loads((folder / f"{mark.name}.json").read_bytes())
            if manifest["version"] != _VERSION or manifest["fingerprint"] != mark.fingerprint:
                return None
            found = [SavedSlot(**one) for one in manifest["slots"]]
        except (OSError, ValueError, TypeError, KeyError):
            return None
        # Whatever the manifest says, no file but the bank's own is handed to an engine.
        return [one for one in found if one.file == f"{mark.name}-{one.slot}.bin"]

    def _clear(self, folder: Path, mark: Mark, kept: set[str]) -> None:
        for pattern in (f"{mark.name}-*.bin", f"{mark.name}-*.part"):
            for file in folder.glob(pattern):
                if file.name not in kept:
                    file.unlink(missing_ok=True)

    def _folders(self) -> Iterator[Path]:
        if self._root.is_dir():
            yield from (folder for folder in self._root.iterdir() if folder.is_dir() and not folder.is_symlink())


def part_name(mark: Mark, slot: int) -> str:
    """Return the name under which the engine writes a slot."""
    return f"{mark.name}-{slot}.part"


def _is_whole(path: Path, saved: SavedSlot) -> bool:
    try:
        return path.stat().st_size == saved.size and _crc(path) == saved.crc
    except OSError:
        return False


def _crc(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc


def _key_of(folder: Path) -> str | None:
    """Return the child's key that a folder is named for, or ``None`` for one that only a hash tells."""
    return None if "~" in folder.name else unquote(folder.name)


def _remove_folder(folder: Path) -> None:
    with suppress(OSError):
        for file in folder.iterdir():
            file.unlink(missing_ok=True)
        folder.rmdir()
