"""Two downloaded models: the estimate beside what llama-server b10068 reported while it loaded and served them."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from blazar_budget import HOST, Offload, kv_cache, map_layers, place_weights
from blazar_budget.compute import estimate_compute
from blazar_budget.testing import engine_flags, lay_out, made_up
from blazar_gguf import GgufMeta

MIB = 1 << 20
PRINTED = 0.006
MODELS = json.loads(gzip.decompress((Path(__file__).parent / "data" / "real_models.json.gz").read_bytes()))
RUNS = [
    pytest.param(made_up(model["arch"], model["keys"], lay_out(model["tensors"])), run, id=f"{model['name']} {argv}")
    for model in MODELS
    for run in model["runs"]
    for argv in [" ".join(run["argv"])]
]


@pytest.mark.parametrize(("meta", "run"), RUNS)
def test_a_real_model_takes_what_was_estimated(meta: GgufMeta, run: Mapping[str, Any]) -> None:
    flags = dict(engine_flags(run["argv"]))
    kv = kv_cache(meta, **flags)  # type: ignore[arg-type]  # flags of mixed types
    weights = place_weights(meta)[HOST]
    scratch = estimate_compute(meta, kv, map_layers(kv.layer_count, [], Offload()), [])[HOST]

    assert weights.mapped_bytes / MIB == pytest.approx(run["model_mib"], abs=PRINTED)
    assert weights.repacked_bytes / MIB == pytest.approx(run["repack_mib"], abs=PRINTED)
    assert kv.kv_bytes / MIB == pytest.approx(run["kv_mib"], abs=4 * PRINTED)
    assert scratch.low / MIB <= run["compute_mib"] <= scratch.high / MIB
