import pytest

from blazar_budget import Gpu, Machine, Memory, Pool, cap_cache_ram_mb

GIB = 1 << 30


MACHINE = Machine(
    64 * GIB,
    48 * GIB,
    (Gpu("A", 24 * GIB, 20 * GIB, device="CUDA0"), Gpu("B", 12 * GIB, 12 * GIB, unified=True)),
)


def test_capacity_is_what_there_is_and_available_what_is_free() -> None:
    assert MACHINE.capacity() == Memory(64 * GIB, (Pool("CUDA0", 24 * GIB), Pool("GPU1", 12 * GIB, unified=True)))
    assert MACHINE.available().device_bytes == 32 * GIB
    assert MACHINE.available().ram_bytes == 48 * GIB


def test_what_runs_already_is_taken_off() -> None:
    left = MACHINE.capacity().minus({"CUDA0": 30 * GIB, "elsewhere": GIB}, ram_used=4 * GIB)
    assert [pool.bytes for pool in left.pools] == [0, 12 * GIB]
    assert left.ram_bytes == 60 * GIB


@pytest.mark.parametrize(
    ("requested", "ram", "expected"),
    [
        pytest.param(None, 128 * GIB, 8192, id="the default"),
        pytest.param(None, 8 * GIB, 2457, id="30 % of a small machine"),
        pytest.param(100_000, 64 * GIB, 19_660, id="an explicit value is capped as well"),
        pytest.param(-1, 64 * GIB, 19_660, id="no limit means the cap"),
        pytest.param(0, 64 * GIB, 0, id="off stays off"),
        pytest.param(512, 64 * GIB, 512, id="a small value stays"),
    ],
)
def test_the_prompt_cache_never_takes_more_than_30_percent(requested: int | None, ram: int, expected: int) -> None:
    assert cap_cache_ram_mb(requested, ram) == expected
