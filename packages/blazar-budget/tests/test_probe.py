"""The probe against canned drivers, file systems and control groups; none of this machine's own devices is needed."""

import platform
import shutil
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from blazar_budget import Gpu, Vendor, probe

MIB = 1 << 20
GIB = 1 << 30


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{content}\n")


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    """Empty sysfs and procfs."""
    return tmp_path / "sys", tmp_path / "proc"


@pytest.fixture(autouse=True)
def _host_of_64_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = types.SimpleNamespace(total=64 * GIB, available=40 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


class NvmlError(Exception):
    """Stands in for ``pynvml.NVMLError``."""


class Nvml(types.ModuleType):
    """A driver library with canned cards; counts how often it is opened and closed."""

    NVMLError = NvmlError

    def __init__(self, *cards: tuple[object, int, int, object], failure: str = "", hangs: bool = False) -> None:
        super().__init__("pynvml")
        self.cards = cards
        self.failure = failure
        self.release = threading.Event()
        self.hangs = hangs
        self.opened = 0

    def nvmlInit(self) -> None:  # noqa: N802 (the library's name)
        if self.hangs:
            self.release.wait()
        if self.failure:
            raise NvmlError(self.failure)
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802 (the library's name)
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 (the library's name)
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802 (the library's name)
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> types.SimpleNamespace:  # noqa: N802 (the library's name)
        return types.SimpleNamespace(total=self.cards[handle][1], free=self.cards[handle][2])

    def nvmlDeviceGetName(self, handle: int) -> object:  # noqa: N802 (the library's name)
        return self.cards[handle][0]

    def nvmlDeviceGetUUID(self, handle: int) -> object:  # noqa: N802 (the library's name)
        return self.cards[handle][3]


Install = Callable[[Nvml], Nvml]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a driver library in place; hanging ones are let go at the end."""
    installed: list[Nvml] = []

    def install(library: Nvml) -> Nvml:
        monkeypatch.setitem(sys.modules, "pynvml", library)
        installed.append(library)
        return library

    yield install
    for library in installed:
        library.release.set()


@pytest.fixture(autouse=True)
def _no_nvidia_smi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)


def smi(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda _: str(program))


# -- NVIDIA ----------------------------------------------------------------------------------------------------


def test_nvidia_cards_come_from_the_driver_library(nvml: Install, roots: tuple[Path, Path]) -> None:
    library = nvml(Nvml(("NVIDIA H200", 141 * GIB, 140 * GIB, "GPU-1"), (b"Tesla T4", 15 * GIB, 3 * GIB, b"GPU-2")))
    machine = probe.probe_memory(sys_root=roots[0], proc_root=roots[1])
    assert machine.gpus == (
        Gpu("NVIDIA H200", 141 * GIB, 140 * GIB, "GPU-1", Vendor.NVIDIA),
        Gpu("Tesla T4", 15 * GIB, 3 * GIB, "GPU-2", Vendor.NVIDIA),
    )
    assert library.opened == 0, "the library is closed again"
    assert machine.notes == ()


def test_a_machine_without_the_driver_has_no_cards(nvml: Install, roots: tuple[Path, Path]) -> None:
    nvml(Nvml(failure="NVML Shared Library Not Found"))
    assert probe.probe_memory(sys_root=roots[0], proc_root=roots[1]).gpus == ()


def test_without_the_library_nvidia_smi_is_asked(
    nvml: Install, roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nvml(Nvml(failure="NVML Shared Library Not Found"))
    smi(monkeypatch, tmp_path, 'echo "NVIDIA GeForce RTX 3090, 24576, 24061, GPU-8f"')
    (gpu,) = probe.probe_memory(sys_root=roots[0], proc_root=roots[1]).gpus
    assert gpu == Gpu("NVIDIA GeForce RTX 3090", 24576 * MIB, 24061 * MIB, "GPU-8f", Vendor.NVIDIA)


@pytest.mark.parametrize("script", ["exit 9", "exec sleep 600"], ids=["fails", "hangs"])
def test_an_nvidia_smi_that_is_no_help_is_noted(
    nvml: Install, roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str
) -> None:
    nvml(Nvml(failure="Driver Not Loaded"))
    smi(monkeypatch, tmp_path, script)
    machine = probe.probe_memory(timeout_s=0.3, sys_root=roots[0], proc_root=roots[1])
    assert machine.gpus == ()
    assert machine.notes == ("nvidia-smi is there but failed or did not answer; NVIDIA GPUs are left out",)


def test_a_hanging_driver_is_given_up_on(nvml: Install, roots: tuple[Path, Path]) -> None:
    nvml(Nvml(hangs=True))
    machine = probe.probe_memory(timeout_s=0.05, sys_root=roots[0], proc_root=roots[1])
    assert machine.gpus == ()
    assert machine.notes == ("the NVIDIA driver did not answer within 0.05 s; its GPUs are left out",)


# -- AMD and Intel ---------------------------------------------------------------------------------------------


def card(root: Path, number: int, vendor: str, **files: object) -> Path:
    device = root / "class" / "drm" / f"card{number}" / "device"
    write(device / "vendor", vendor)
    for name, content in files.items():
        write(device / name, content)
    return device


def test_amd_cards_come_from_sysfs(roots: tuple[Path, Path], nvml: Install) -> None:
    nvml(Nvml(failure="no"))
    sys_root, proc_root = roots
    card(sys_root, 1, "0x1002", mem_info_vram_total=24 * GIB, mem_info_vram_used=4 * GIB, unique_id="abc")
    card(sys_root, 0, "0x1002", mem_info_vram_total=16 * GIB, product_name="AMD Radeon RX 6800")
    write(sys_root / "class" / "drm" / "card0-HDMI-A-1" / "status", "connected")
    assert probe.probe_memory(sys_root=sys_root, proc_root=proc_root).gpus == (
        Gpu("AMD Radeon RX 6800", 16 * GIB, 16 * GIB, vendor=Vendor.AMD),
        Gpu("AMD GPU card1", 24 * GIB, 20 * GIB, "abc", Vendor.AMD),
    )


def test_intel_cards_with_memory_of_their_own_are_found(roots: tuple[Path, Path], nvml: Install) -> None:
    nvml(Nvml(failure="no"))
    sys_root, proc_root = roots
    xe = card(sys_root, 0, "0x8086")
    write(xe / "tile0" / "physical_vram_size_bytes", 8 * GIB)
    write(xe / "tile1" / "physical_vram_size_bytes", 8 * GIB)
    write(card(sys_root, 1, "0x8086").parent / "lmem_total_bytes", 16 * GIB)
    write(sys_root / "class" / "drm" / "card1" / "lmem_avail_bytes", 15 * GIB)
    card(sys_root, 2, "0x8086")
    card(sys_root, 3, "0x1234")
    machine = probe.probe_memory(sys_root=sys_root, proc_root=proc_root)
    assert [(gpu.name, gpu.total, gpu.free) for gpu in machine.gpus] == [
        ("Intel GPU card0", 16 * GIB, 16 * GIB),
        ("Intel GPU card1", 16 * GIB, 15 * GIB),
    ]
    assert "does not say how much of its memory is free" in machine.notes[0]


def test_cards_whose_files_cannot_be_read_are_left_out(roots: tuple[Path, Path], nvml: Install) -> None:
    nvml(Nvml(failure="no"))
    card(roots[0], 0, "0x1002", mem_info_vram_total="nonsense")
    card(roots[0], 1, "0x1002", mem_info_vram_total=0)
    assert probe.probe_memory(sys_root=roots[0], proc_root=roots[1]).gpus == ()


# -- host memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        pytest.param({}, None, (64, 40), id="no control groups"),
        pytest.param({"memory.max": 8 * GIB, "memory.current": 2 * GIB}, "0::/", (8, 6), id="version 2, a container"),
        pytest.param(
            {"user.slice/memory.max": 16 * GIB}, "0::/user.slice/app.scope", (16, 16), id="an ancestor's limit"
        ),
        pytest.param(
            {"a/memory.max": 16 * GIB, "a/b/memory.max": 4 * GIB, "a/b/memory.current": GIB},
            "0::/a/b",
            (4, 3),
            id="the tightest counts",
        ),
        pytest.param({"memory.max": "max"}, "0::/", (64, 40), id="no limit"),
        pytest.param(
            {
                "memory.max": 8 * GIB,
                "memory.current": 7 * GIB,
                "memory.stat": f"anon 1\ninactive_file {5 * GIB}\nslab 3",
            },
            "0::/",
            (8, 6),
            id="cached files are given back",
        ),
        pytest.param(
            {"memory/docker/x/memory.limit_in_bytes": 6 * GIB, "memory/docker/x/memory.usage_in_bytes": GIB},
            "12:cpu,cpuacct:/other\n9:memory:/docker/x",
            (6, 5),
            id="version 1",
        ),
        pytest.param(
            {"memory/memory.limit_in_bytes": 6 * GIB}, "9:memory:/docker/x", (6, 6), id="version 1, only the root seen"
        ),
        pytest.param(
            {"memory/memory.limit_in_bytes": 9223372036854771712}, "9:memory:/", (64, 40), id="version 1, no limit"
        ),
        pytest.param({"memory.max": 8 * GIB}, None, (8, 8), id="membership unknown: the root"),
        pytest.param({"memory.max": GIB, "memory.current": 2 * GIB}, "0::/", (1, 0), id="over the limit"),
    ],
)
def test_limits_of_control_groups_count(
    roots: tuple[Path, Path], files: dict[str, object], membership: str | None, expected: tuple[int, int]
) -> None:
    sys_root, proc_root = roots
    for name, content in files.items():
        write(sys_root / "fs" / "cgroup" / name, content)
    if membership is not None:
        write(proc_root / "self" / "cgroup", membership)
    total, available = probe.read_ram(sys_root=sys_root, proc_root=proc_root)
    assert (total // GIB, available // GIB) == expected


# -- Apple -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "available", "wired_mb", "expected"),
    [
        pytest.param(96 * GIB, 80 * GIB, 0, (72 * GIB, 72 * GIB), id="three quarters"),
        pytest.param(24 * GIB, 10 * GIB, 0, (16 * GIB, 10 * GIB), id="two thirds of a small one"),
        pytest.param(64 * GIB, 60 * GIB, 57_344, (56 * GIB, 56 * GIB), id="the owner's limit"),
        pytest.param(64 * GIB, 60 * GIB, 999_999, (64 * GIB, 60 * GIB), id="never more than there is"),
    ],
)
def test_unified_memory_is_shared(total: int, available: int, wired_mb: int, expected: tuple[int, int]) -> None:
    gpu = probe.apple_gpu("Apple M2 Max", total, available, wired_mb)
    assert (gpu.total, gpu.free) == expected
    assert (gpu.unified, gpu.device, gpu.vendor) == (True, "MTL0", Vendor.APPLE)


def test_a_mac_asks_the_system(monkeypatch: pytest.MonkeyPatch, roots: tuple[Path, Path], nvml: Install) -> None:
    nvml(Nvml(failure="no"))
    answers = {"machdep.cpu.brand_string": "Apple M3 Pro\n", "iogpu.wired_limit_mb": "0\n"}

    def run(command: list[str], **_: object) -> types.SimpleNamespace:
        return types.SimpleNamespace(stdout=answers[command[-1]].encode())

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(subprocess, "run", run)
    (gpu,) = probe.probe_memory(sys_root=roots[0], proc_root=roots[1]).gpus
    assert (gpu.name, gpu.total) == ("Apple M3 Pro", 48 * GIB)


def test_an_intel_mac_has_no_unified_memory(
    monkeypatch: pytest.MonkeyPatch, roots: tuple[Path, Path], nvml: Install
) -> None:
    nvml(Nvml(failure="no"))
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert probe.probe_memory(sys_root=roots[0], proc_root=roots[1]).gpus == ()


# -- this very machine -----------------------------------------------------------------------------------------


def run_python(source: str) -> str:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=100)
    return done.stdout.strip()


def test_probing_maps_no_cuda_library_and_leaves_no_process_behind() -> None:
    source = (
        "import pathlib, psutil\n"
        "from blazar_budget.probe import probe_memory\n"
        "machine = probe_memory()\n"
        "assert 0 < machine.ram_available <= machine.ram_total\n"
        "maps = pathlib.Path('/proc/self/maps')\n"
        "mapped = maps.read_text() if maps.exists() else ''\n"
        "print([name for name in ('libcuda', 'libcudart', 'libcublas', 'libggml') if name in mapped])\n"
        "print(psutil.Process().children(recursive=True))\n"
    )
    assert run_python(source) == "[]\n[]"


def test_the_arithmetic_loads_nothing_that_reads_machines() -> None:
    source = (
        "import sys, blazar_budget\n"
        "print([m for m in ('psutil', 'pynvml', 'subprocess', 'asyncio', 'blazar_budget.probe') if m in sys.modules])"
    )
    assert run_python(source) == "[]"
