"""Every cache figure against what llama-server b10434 printed; see data/README.md for how rows were measured."""

import gzip
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from blazar_budget import BudgetError, KvCache, kv_cache
from blazar_budget.testing import engine_flags
from blazar_gguf import GgufMeta

Row = Mapping[str, Any]

DATA = Path(__file__).parent / "data"
MIB = 1 << 20
PRINTED = 0.006
"""MiB figures have two decimals."""


def rows(name: str) -> Sequence[Row]:
    with gzip.open(DATA / name, "rt") as file:
        return [json.loads(line) for line in file]


def by_architecture(name: str) -> Mapping[str, Sequence[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows(name):
        found[row["arch"]].append(row)
    return found


def truth_flags(row: Row) -> dict[str, Any]:
    if "argv" in row:
        return dict(engine_flags(row["argv"]))
    flags = dict(row["flags"])
    for short in ("k", "v"):
        if f"cache_type_{short}" in flags:
            flags[f"type_{short}"] = flags.pop(f"cache_type_{short}")
    if "kv_unified" in flags:
        flags["unified"] = flags.pop("kv_unified")
    return flags


def differences(row: Row, kv: KvCache) -> list[str]:
    """What differs from the engine's log, in words."""
    seen = row["observed"]
    found = []
    for name, count in (("n_ctx", kv.total_cells), ("n_ctx_seq", kv.cells), ("n_slots", kv.layout.slots)):
        if seen[name] != count:
            found.append(f"{name} {count}, engine {seen[name]}")
    for name, count in (("n_ubatch", kv.layout.ubatch), ("n_ctx_slot", kv.layout.slot_tokens)):
        if name in seen and seen[name] != count:
            found.append(f"{name} {count}, engine {seen[name]}")
    if len(kv.caches) != len(seen["kv_caches"]):
        found.append(f"{len(kv.caches)} caches, engine {len(seen['kv_caches'])}")
    for ours, theirs in zip(kv.caches, seen["kv_caches"], strict=False):
        shape = (ours.kind, ours.cells, ours.streams)
        if shape != (theirs["kind"], theirs["cells"], theirs["n_stream"]):
            found.append(f"{shape}, engine {theirs}")
        layers = theirs["layers"]
        if (len(ours.layers) if isinstance(layers, int) else list(ours.layers)) != layers:
            found.append(f"layers {ours.layers}, engine {layers}")
        for name, amount in (("k_mib", ours.k_bytes), ("v_mib", ours.v_bytes)):
            if abs(amount / MIB - theirs[name]) > PRINTED:
                found.append(f"{name} {amount / MIB:.3f}, engine {theirs[name]}")
    found += state_differences(seen["recurrent"], kv)
    if kv.approximate:
        found.append(f"called approximate: {kv.doubts}")
    return found


def state_differences(seen: Mapping[str, Any] | None, kv: KvCache) -> list[str]:
    if (seen is None) != (not kv.states):
        return [f"state {kv.states}, engine {seen}"]
    found = []
    for state in kv.states:
        assert seen is not None
        for name, amount in (("r_mib", state.r_bytes), ("s_mib", state.s_bytes)):
            if abs(amount / MIB - seen[name]) > PRINTED:
                found.append(f"{name} {amount / MIB:.3f}, engine {seen[name]}")
        if "il" in seen and list(state.layers) != seen["il"]:
            found.append(f"recurrent layers {state.layers}, engine {seen['il']}")
    return found


def check(measured: Sequence[Row]) -> None:
    problems = []
    for row in measured:
        flags = truth_flags(row)
        try:
            kv = kv_cache(GgufMeta.from_fields({"general.architecture": row["arch"], **row["hparams"]}), **flags)
        except BudgetError as error:
            if row["loaded"]:
                problems.append(f"{flags}: refused ({error}), the engine loads it")
            continue
        if not row["loaded"]:
            problems.append(f"{flags}: accepted, the engine refuses it")
            continue
        problems += [f"{flags}: {text}" for text in differences(row, kv)]
    assert not problems, "\n".join(problems[:20])


@pytest.mark.parametrize(
    ("arch", "measured"),
    by_architecture("kv_truth.jsonl.gz").items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_printed_figure_is_met(arch: str, measured: Sequence[Row]) -> None:
    check(measured)


@pytest.mark.parametrize(
    ("arch", "measured"),
    by_architecture("kv_measured.jsonl.gz").items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_architectures_beyond_the_reference_rows_are_met_as_well(arch: str, measured: Sequence[Row]) -> None:
    check(measured)


@pytest.mark.parametrize(
    ("arch", "measured"),
    by_architecture("real_shapes.jsonl.gz").items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_models_of_real_width_are_met(arch: str, measured: Sequence[Row]) -> None:
    check(measured)


@pytest.mark.parametrize(
    ("arch", "measured"),
    by_architecture("headers.jsonl.gz").items(),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_odd_headers_are_read_as_the_engine_reads_them(arch: str, measured: Sequence[Row]) -> None:
    check(measured)


def test_the_rows_cover_what_the_engine_knows() -> None:
    measured = {row["arch"] for name in ("kv_truth", "kv_measured", "headers") for row in rows(f"{name}.jsonl.gz")}
    assert len(measured) >= 125
    assert sum(len(rows(f"{name}.jsonl.gz")) for name in ("kv_truth", "kv_measured", "headers")) > 2000
