"""What llama-server's log says while it runs: memory, listening, sleep, progress.

Everything goes to stderr, with a prefix ``M.SS.mmm.uuu L `` where L is a level letter; a few libraries print bare
lines. The buffer sizes appear at ``-lv 4`` only.
"""

import re

from blazar_supervisor.engines.figures import MemoryFigures

_PREFIX = re.compile(r"^\d+\.\d{2}\.\d{3}\.\d{3} ([DIWEC]) (.*)$", re.DOTALL)
# Not anchored on the function's name: compute buffers moved from llama_context to sched_reserve.
_BUFFER = re.compile(r"(\S+)\s+(model|KV|RS|output|compute) buffer size =\s+([\d.]+) MiB")
_LISTENING = re.compile(r"listening on (\S+)")
_DOTS = re.compile(r"^\.+$")
_MIB = 1 << 20


def split_prefix(line: str) -> tuple[str, str]:
    """Return a line's level letter (``""`` for a bare line) and its text."""
    match = _PREFIX.match(line)
    return (match[1], match[2]) if match else ("", line)


class LlamaLog:
    """Reads one child's lines.

    Attributes:
        listening: The address it said it listens on, or ``None`` until then.
        sleeping: Whether its last word on the matter was that it sleeps.
        loads: How often it began to load the model: more than once after a sleep.
        wake_failed: Whether it began to load again after a sleep and has not come up.
    """

    def __init__(self) -> None:
        self.listening: str | None = None
        self.sleeping = False
        self.loads = 0
        self.wake_failed = False
        self._buffers: dict[tuple[str, str], float] = {}
        self._percent: int | None = None

    def line(self, line: str) -> None:
        """Take in one line."""
        # Substring tests first: dozens of lines come with each request, and none of them matters here.
        if "buffer size" in line:
            self._buffer(line)
        elif "load_model: loading model" in line:
            self.loads += 1
            self._buffers.clear()
            self._percent = None
        elif "fitting params to free memory took" in line:
            # The pass that fits parameters may have loaded the model's outline before the load proper.
            self._buffers.clear()
        elif "sleeping state" in line:
            self.sleeping = "entering sleeping state" in line
            self.wake_failed = not self.sleeping
            if self.sleeping:
                self._buffers.clear()
        elif "listening on" in line and (match := _LISTENING.search(line)):
            self.listening = match[1]
        elif "model loaded" in line or "initializing, n_slots" in line:
            self.wake_failed = False
        elif line.startswith("."):
            self.partial(line)

    def partial(self, text: str) -> None:
        """Take in what has come of a line: progress is a dot for each percent or so."""
        if _DOTS.match(text):
            self._percent = min(99, len(text))

    def fraction(self) -> float | None:
        """Return how much of the weights has been loaded, 0.0 to 1.0, or ``None`` where the build does not say."""
        return None if self._percent is None else self._percent / 100

    def figures(self) -> MemoryFigures:
        """Return the buffers of the current load."""
        host = device = mapped = 0.0
        for (where, _), mib in self._buffers.items():
            if where.endswith("_Mapped"):
                mapped += mib
            if where.startswith("CPU") or where.endswith("_Host") or where == "BLAS":
                host += mib
            else:
                device += mib
        return MemoryFigures(
            host_bytes=round(host * _MIB), device_bytes=round(device * _MIB), mapped_bytes=round(mapped * _MIB)
        )

    def _buffer(self, line: str) -> None:
        if match := _BUFFER.search(line):
            key = (match[1], match[2])
            mib, known = float(match[3]), self._buffers.get((match[1], match[2]), 0.0)
            # Compute and output buffers are reserved anew for other batch shapes: the largest stands for all.
            # The others come one line per device and per cache (sliding window or not), or per mapped file.
            self._buffers[key] = max(mib, known) if match[2] in {"compute", "output"} else known + mib
