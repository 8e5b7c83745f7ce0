"""The layout of the data directory; no other module knows a path in it.

::

    <data>/
    ├── blazar.db                 rows; blazar.db-wal and -shm beside it while open
    ├── engines/<tag>/            one installed build each
    ├── models/                   weights that Blazar fetched
    ├── uploads/                  files that clients sent for a later create
    ├── banks/                    saved sessions
    ├── agents/<agent>/           what coding agents that `blazar launch` starts are told, and what they keep
    ├── log/children/<child>.log  what an engine printed
    └── run/                      mode 0700, of no use after a reboot
        ├── control.sock          the daemon's own socket
        ├── daemon.lock           held by the daemon that owns this directory
        ├── daemon.log            the daemon's log
        ├── <child>.apikey        secret of a running child
        ├── <child>.pid           what the next start needs to find orphans
        └── sockets/<child>.sock  where a child listens, if it listens on a unix socket

Names of models, children and engines are written by :func:`encode_name`, so that none can leave its directory.
"""

import contextlib
import hashlib
import os
import string
from dataclasses import dataclass
from pathlib import Path

from blazar_store.errors import NotWritable
from blazar_store.files import make_directory

MAX_SOCKET_PATH_BYTES = 103
"""macOS takes 103 bytes and Linux 107; one limit makes both behave alike."""

_PLAIN = frozenset(string.ascii_letters + string.digits + "-_.")
_MAX_ENCODED = 120
"""Characters of an encoded name: with a suffix and a rotation number it stays under eCryptfs's 143."""
_KEPT = 80


def encode_name(name: str) -> str:
    """Return ``name`` as the stem of a file name: percent-encoded UTF-8, no slash, no leading dot.

    Different names give different stems, also where they are long: beyond 120 characters the rest is replaced by
    a hash, marked with ``~``, which never occurs in an encoded name.

    Args:
        name: Any text; lone surrogates, which names from file systems may hold, are kept apart too.
    """
    encoded = "".join(_encode_char(char) for char in name)
    if not encoded or encoded.startswith("."):
        encoded = f"%2E{encoded[1:]}" if encoded else "%"
    if len(encoded) <= _MAX_ENCODED:
        return encoded
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    head = encoded[:_KEPT]
    cut = head.rfind("%", _KEPT - 2)
    return f"{head if cut < 0 else head[:cut]}~{digest}"


def _encode_char(char: str) -> str:
    if char in _PLAIN:
        return char
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Layout:
    """Every path under one data directory. Nothing is created until :meth:`prepare`.

    Attributes:
        data_dir: Absolute, free of symbolic links, so that all processes compute the same paths whichever way
            they came.
        short_root: Where sockets go whose path would be too long for the kernel. It must be the same for the
            daemon and its callers, which the environment's temporary directory is not.
    """

    data_dir: Path
    short_root: Path = Path("/tmp")

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", Path(os.path.realpath(self.data_dir)))

    # What lasts

    @property
    def database(self) -> Path:
        return self.data_dir / "blazar.db"

    @property
    def responses_database(self) -> Path:
        return self.data_dir / "responses.db"

    @property
    def engines_dir(self) -> Path:
        return self.data_dir / "engines"

    def engine_dir(self, tag: str) -> Path:
        return self.engines_dir / encode_name(tag)

    @property
    def models_dir(self) -> Path:
        return self.data_dir / "models"

    @property
    def banks_dir(self) -> Path:
        return self.data_dir / "banks"

    @property
    def uploads_dir(self) -> Path:
        return self.data_dir / "uploads"

    def agent_dir(self, agent: str) -> Path:
        return self.data_dir / "agents" / encode_name(agent)

    @property
    def log_dir(self) -> Path:
        return self.data_dir / "log"

    @property
    def child_log_dir(self) -> Path:
        return self.log_dir / "children"

    def child_log(self, child: str) -> Path:
        return self.child_log_dir / f"{encode_name(child)}.log"

    # What belongs to a running daemon

    @property
    def run_dir(self) -> Path:
        return self.data_dir / "run"

    @property
    def daemon_log(self) -> Path:
        return self.run_dir / "daemon.log"

    @property
    def lock_file(self) -> Path:
        return self.run_dir / "daemon.lock"

    def apikey_file(self, child: str) -> Path:
        return self.run_dir / f"{encode_name(child)}.apikey"

    def child_pidfile(self, child: str) -> Path:
        return self.run_dir / f"{encode_name(child)}.pid"

    def child_pidfiles(self) -> tuple[Path, ...]:
        """Return the pidfiles there are, sorted: what an earlier daemon may have left running."""
        return tuple(sorted(self.run_dir.glob("*.pid")))

    @property
    def sockets_dir(self) -> Path:
        """Where children's sockets are, if their paths are short enough; names of models cannot meet our own here."""
        return self.run_dir / "sockets"

    @property
    def short_dir(self) -> Path:
        """The private directory for sockets whose path would be too long; the same for everybody who asks."""
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]
        return self.short_root / f"blazar-{_user_id()}-{digest}"

    @property
    def control_socket(self) -> Path:
        """The daemon's own socket."""
        return self._short_enough(self.run_dir / "control.sock", "control.sock")

    def child_socket(self, child: str) -> Path:
        """Return where a child listens; the name ends in ``.sock``, by which llama-server knows a unix socket.

        A long name is replaced by a hash before a long directory is replaced by the short one.
        """
        path = self.sockets_dir / f"{encode_name(child)}.sock"
        if _fits(path):
            return path
        short_name = f"child-~{hashlib.sha256(child.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}.sock"
        return self._short_enough(self.sockets_dir / short_name, short_name)

    def _short_enough(self, path: Path, short_name: str) -> Path:
        return path if _fits(path) else self.short_dir / short_name

    # Making it

    def prepare(self) -> None:
        """Create the directories. What exists is left as it is; new ones of ours are private to the user.

        Raises:
            NotWritable: No permission, or somebody else's directory is where a private one must be.
            DiskFull: No room for a directory.
            StorageFailed: Anything else the system says, for example a file where a directory must be.
        """
        make_directory(self.data_dir, mode=0o700)
        for directory in (self.engines_dir, self.models_dir, self.banks_dir, self.child_log_dir):
            make_directory(directory)
        make_directory(self.run_dir, mode=0o700)
        make_directory(self.sockets_dir, mode=0o700)
        # The deepest path decides, for it may be needed: a child's whose name is replaced by its hash.
        if self.child_socket("x" * MAX_SOCKET_PATH_BYTES).parent == self.short_dir:
            make_directory(self.short_dir, mode=0o700)
            require_private(self.short_dir)

    def discard_short_dir(self) -> None:
        """Remove the directory for short paths when nothing is left in it; a stopping daemon calls this last."""
        with contextlib.suppress(OSError):
            self.short_dir.rmdir()

    def find_control_socket(self) -> Path | None:
        """Return the daemon's socket if there is one, or ``None``.

        A socket outside the data directory counts only in a directory that is ours alone: anybody may create files
        in a shared temporary directory.
        """
        path = self.control_socket
        if not path.is_socket():
            return None
        if path.parent == self.short_dir and not is_private(self.short_dir):
            return None
        return path


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES


def is_private(directory: Path) -> bool:
    """Return whether ``directory`` is a real directory that belongs to this user and is open to nobody else."""
    try:
        status = directory.lstat()
    except OSError:
        return False
    if os.name == "nt":
        return directory.is_dir()
    return (status.st_mode & 0o170077) == 0o040000 and status.st_uid == _user_id()


def require_private(directory: Path) -> None:
    """Check that nobody else can put a socket into ``directory``.

    Raises:
        NotWritable: It belongs to somebody else, or is open to others.
    """
    if not is_private(directory):
        raise NotWritable(path=directory, reason="it belongs to another user or is open to others")


def _user_id() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0
