"""What engines and drivers print about devices."""

import pytest

from blazar_budget import Gpu, ListedDevice, Vendor, parse_list_devices
from blazar_budget.listings import as_gpus, parse_nvidia_smi, vendor_of

MIB = 1 << 20

CUDA = """\
Available devices:
  CUDA0: NVIDIA GeForce RTX 4090 (24080 MiB, 23700 MiB free)
  CUDA1: NVIDIA H200 (143771 MiB, 143094 MiB free)
"""
MAC = """\
Available devices:
  MTL0: Apple M2 Max (73728 MiB, 73727 MiB free)
  BLAS: Accelerate (0 MiB, 0 MiB free)
"""
MIXED = """\
ggml_vulkan: Found 1 Vulkan devices:
Available devices:
  Vulkan0: AMD Radeon RX 7900 XTX (RADV NAVI31) (24560 MiB, 24000 MiB free)
  RPC0[127.0.0.1:50052]: 127.0.0.1:50052 (16000 MiB, 15000 MiB free)
  CPU: AMD EPYC (24105 MiB, 24105 MiB free)
"""
DIFFUSION = "CUDA0\tNVIDIA GeForce RTX 4090\nVulkan0\tNVIDIA GeForce RTX 4090\nCPU\tAMD EPYC 9654\n"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param(CUDA, ["CUDA0", "CUDA1"], id="several"),
        pytest.param(MAC, ["MTL0"], id="a row without memory"),
        pytest.param(MIXED, ["Vulkan0", "RPC0[127.0.0.1:50052]"], id="the processor's row, remote devices, log lines"),
        pytest.param(DIFFUSION, [], id="stable-diffusion.cpp: no memory at all"),
        pytest.param("Available devices:\n  (none)\n", [], id="none"),
        pytest.param("Available devices:\n", [], id="nothing, as older builds"),
        pytest.param("", [], id="no output"),
        pytest.param("\x00\xff (1 MiB, x MiB free)", [], id="noise"),
    ],
)
def test_only_accelerators_with_memory_are_listed(text: str, names: list[str]) -> None:
    assert [device.name for device in parse_list_devices(text)] == names


def test_sizes_and_descriptions_are_read() -> None:
    first = parse_list_devices(CUDA)[0]
    assert first == ListedDevice("CUDA0", "NVIDIA GeForce RTX 4090", 24080 * MIB, 23700 * MIB)
    assert parse_list_devices(MIXED)[0].description == "AMD Radeon RX 7900 XTX (RADV NAVI31)"


def test_listed_devices_become_accelerators_with_the_engines_names() -> None:
    (gpu,) = as_gpus(parse_list_devices(MAC))
    assert gpu == Gpu("Apple M2 Max", 73728 * MIB, 73727 * MIB, vendor=Vendor.APPLE, device="MTL0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "NVIDIA GeForce RTX 3090, 24576, 24061, GPU-8f0c6d8e-0000-0000-0000-000000000000\n"
            "NVIDIA A100-SXM4-80GB, 81920, 1024, GPU-1\n",
            [("NVIDIA GeForce RTX 3090", 24576, 24061), ("NVIDIA A100-SXM4-80GB", 81920, 1024)],
            id="two cards",
        ),
        pytest.param("Tesla T4, [N/A], [N/A], GPU-2\n", [], id="a card that does not say"),
        pytest.param(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", [], id="no driver"
        ),
        pytest.param("No devices were found\n", [], id="no card"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_nvidia_smi_is_read(text: str, expected: list[tuple[str, int, int]]) -> None:
    found = [(gpu.name, gpu.total // MIB, gpu.free // MIB) for gpu in parse_nvidia_smi(text)]
    assert found == expected


@pytest.mark.parametrize(
    ("name", "vendor"),
    [
        ("NVIDIA H200", Vendor.NVIDIA),
        ("Quadro P2000", Vendor.NVIDIA),
        ("AMD Instinct MI300X", Vendor.AMD),
        ("Intel(R) Arc(TM) A770 Graphics", Vendor.INTEL),
        ("Apple M4", Vendor.APPLE),
        ("llvmpipe", Vendor.OTHER),
    ],
)
def test_makers_are_guessed_from_names(name: str, vendor: Vendor) -> None:
    assert vendor_of(name) is vendor
