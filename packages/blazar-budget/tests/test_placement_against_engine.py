"""Weights, cache, state and scratch buffers per device against measured placements."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from blazar_budget import HOST, Device, Offload, kv_cache, map_layers, place_weights
from blazar_budget.compute import ComputeEstimate, estimate_compute
from blazar_budget.kv import KvCache
from blazar_budget.offload import LayerMap
from blazar_budget.testing import engine_flags, lay_out, made_up
from blazar_gguf import GgufMeta

Row = Mapping[str, Any]

DATA = Path(__file__).parent / "data"
MIB = 1 << 20
PRINTED = 0.006
"""MiB figures have two decimals."""
GPU = "GPU"
"""A remote device stood in for a graphics card when the rows were measured."""
NAMES = {"CPU": HOST, GPU: GPU}


def rows(name: str) -> Sequence[Row]:
    with gzip.open(DATA / name, "rt") as file:
        return [json.loads(line) for line in file]


TENSORS = json.loads(gzip.decompress((DATA / "tensors.json.gz").read_bytes()))
PLACED = [*rows("offload_truth.jsonl.gz"), *rows("offload_measured.jsonl.gz")]


def close(ours: float, theirs: float) -> bool:
    """Within one percent, or within what two decimals can say."""
    return abs(ours - theirs) <= max(0.01 * theirs, PRINTED)


def header(row: Row) -> GgufMeta:
    arch = row["arch"]
    keys = {key.removeprefix(f"{arch}."): value for key, value in row["hparams"].items()}
    keys.setdefault("vocab_size", row.get("n_vocab", 320))
    return made_up(arch, keys, lay_out(TENSORS[row["variant"]]) if row["variant"] in TENSORS else ())


def offload(argv: Sequence[str]) -> Offload:
    words = list(argv)

    def after(flag: str) -> str | None:
        return words[words.index(flag) + 1] if flag in words else None

    override = after("-ot")
    layers = after("-ngl")
    return Offload(
        gpu_layers=int(layers) if layers is not None else None,
        cpu_moe="--cpu-moe" in words,
        n_cpu_moe=int(after("--n-cpu-moe") or 0),
        kv_on_host="-nkvo" in words,
        overrides=(tuple(override.split("=")),) if override else (),  # type: ignore[arg-type]  # two parts
    )


def described(row: Row) -> tuple[GgufMeta, KvCache, LayerMap, Offload, list[Device]]:
    meta, flags, asked = header(row), dict(engine_flags(row["argv"])), offload(row["argv"])
    devices = [Device(GPU, 1)] if "-ngl" in row["argv"] else []
    kv = kv_cache(meta, **flags)  # type: ignore[arg-type]  # flags of mixed types
    return meta, kv, map_layers(kv.layer_count, devices, asked), asked, devices


def ids(row: Row) -> str:
    return f"{row['variant']} {' '.join(row['argv'][5:])}"


@pytest.mark.parametrize("row", PLACED, ids=ids)
def test_each_device_holds_the_weights_the_engine_puts_there(row: Row) -> None:
    meta, _, layers, asked, devices = described(row)
    shares = place_weights(meta, devices=devices, offload=asked)
    seen = row["model_mib"]
    assert close(shares[HOST].mapped_bytes / MIB, seen.get("CPU_Mapped", 0))
    assert close(shares[HOST].repacked_bytes / MIB, seen.get("CPU_REPACK", 0))
    assert close(shares[GPU].tensor_bytes / MIB, seen.get(GPU, 0))
    assert layers.offloaded == row["offloaded"][0]


@pytest.mark.parametrize("row", PLACED, ids=ids)
def test_cache_and_state_follow_their_layers(row: Row) -> None:
    _, kv, layers, asked, _ = described(row)
    cache: dict[str, float] = {}
    state: dict[str, float] = {}
    for layer in kv.layers:
        device = HOST if asked.kv_on_host else layers.of(layer.layer)
        cache[device] = cache.get(device, 0) + layer.kv_bytes / MIB
        state[device] = state.get(device, 0) + layer.state_bytes / MIB
    for name, device in NAMES.items():
        seen = [mib for where, mib in row["kv_mib"] if where == name]
        assert abs(cache.get(device, 0) - sum(seen)) <= max(0.01 * sum(seen), PRINTED * max(len(seen), 1))
        assert close(state.get(device, 0), row["rs_mib"].get(name, 0))


def estimates(row: Row) -> Mapping[str, ComputeEstimate]:
    meta, kv, layers, asked, devices = described(row)
    used = [d.name for d in devices if d.name in layers.layers or d.name == layers.output]
    return estimate_compute(meta, kv, layers, used, kv_on_host=asked.kv_on_host)


def holds(estimate: ComputeEstimate, mib: float) -> bool:
    return estimate.low / MIB - PRINTED <= mib <= estimate.high / MIB + PRINTED


def test_the_scratch_interval_holds_for_nearly_all_placements() -> None:
    found = [holds(estimates(row)[NAMES[name]], mib) for row in PLACED for name, mib in row["compute_mib"].items()]
    assert sum(found) >= 0.95 * len(found)
    assert sum(found) >= 0.99 * len(found), "measured when written: 597 of 599"


def whole(name: str) -> list[tuple[ComputeEstimate, float]]:
    """Estimate and figure of rows where the host computes everything."""
    found = []
    for row in rows(name):
        if not row["loaded"]:
            continue
        argv = row.get("argv") or truth_argv(row["flags"])
        seen = row["observed"]["compute_buffer_mib"]
        found.append((estimates({**row, "argv": argv})[HOST], seen))
    return found


def truth_argv(flags: Mapping[str, Any]) -> list[str]:
    argv = ["-c", str(flags["ctx"]), "-ub", str(flags["ubatch"]), "-fa", flags["flash_attn"]]
    argv += ["-ctk", flags["cache_type_k"], "-ctv", flags["cache_type_v"]]
    if flags["parallel"] is not None:
        argv += ["-np", str(flags["parallel"])]
    if flags["kv_unified"] is not None:
        argv.append("-kvu" if flags["kv_unified"] else "-no-kvu")
    if flags["swa_full"]:
        argv.append("--swa-full")
    return argv


@pytest.mark.parametrize("name", ["kv_truth.jsonl.gz", "kv_measured.jsonl.gz", "real_shapes.jsonl.gz"])
def test_the_scratch_interval_holds_where_the_host_computes_everything(name: str) -> None:
    measured = whole(name)
    found = [holds(estimate, mib) for estimate, mib in measured]
    assert sum(found) >= 0.99 * len(found)


def test_the_scratch_interval_is_narrow_enough_to_be_of_use() -> None:
    measured = whole("real_shapes.jsonl.gz")
    over = sorted(estimate.high / MIB / mib for estimate, mib in measured)
    under = sorted(estimate.low / MIB / mib for estimate, mib in measured)
    assert over[len(over) // 2] < 1.2
    assert over[-1] < 2
    assert under[len(under) // 2] > 0.6
