"""Does a model have the tensors the engine will ask for, in the right shapes, and no others?"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from blazar_gguf.engine.objection import refusal
from blazar_gguf.engine.plans import Expectation, Wanted, expectation, is_scale_of
from blazar_gguf.meta import GgufMeta
from blazar_gguf.tensors import TensorInfo
from blazar_gguf.types import LoadPrediction

_BLOCK: Final = re.compile(r"^blk\.(\d+)\.")
_NO_BLOCK_TENSORS: Final = frozenset({"deci", "wavtokenizer-dec", "t5", "t5encoder", "eagle3", "dflash", "pockettts"})
"""Architectures in which a block may have no tensor named ``blk.N.…``."""

_MAX_DIMS: Final = 4


def _padded(dims: Sequence[int]) -> tuple[int, ...]:
    """All four dimensions, as the engine compares them."""
    return (*dims, *(1,) * (_MAX_DIMS - len(dims)))


def _shown(dims: Sequence[int]) -> str:
    return "×".join(map(str, dims)) or "scalar"


def check_tensors(meta: GgufMeta, tensors: Sequence[TensorInfo]) -> LoadPrediction | None:
    """Compare what is there (in all parts) with what is wanted.

    Returns:
        The first objection, or None.
    """
    found = {t.name: t for t in tensors}
    wanted = expectation(meta)
    if wanted is None:
        return _check_generally(meta, found.keys()) or _check_blocks(meta, found.keys())
    return _check_against(wanted, found)


def _check_against(wanted: Expectation, found: dict[str, TensorInfo]) -> LoadPrediction | None:
    used: set[str] = set()
    for one in wanted.tensors():
        objection = _check_one(one, found)
        if objection is not None:
            return objection
        used.add(one.name)
    names = frozenset(found)
    extra = [name for name in found if name not in used and not is_scale_of(name, names)]
    if extra:
        shown = ", ".join(extra[:3]) + ("…" if len(extra) > 3 else "")
        return refusal(
            "tensor-unexpected",
            f"{len(extra)} tensors are not part of this architecture as the keys describe it: {shown}",
            build_specific=True,
        )
    return None


def _check_one(one: Wanted, found: dict[str, TensorInfo]) -> LoadPrediction | None:
    tensor = found.get(one.name)
    if tensor is None:
        return refusal("tensor-missing", f"tensor {one.name!r} is missing") if one.required else None
    if _padded(tensor.dims) != _padded(one.dims):
        return refusal(
            "tensor-shape", f"tensor {one.name!r} is {_shown(tensor.dims)}, the keys call for {_shown(one.dims)}"
        )
    return None


def _check_generally(meta: GgufMeta, names: Iterable[str]) -> LoadPrediction | None:
    if "token_embd.weight" in names or meta.architecture in _NO_BLOCK_TENSORS:
        return None
    return refusal("tensor-missing", "tensor 'token_embd.weight' is missing")


def _check_blocks(meta: GgufMeta, names: Iterable[str]) -> LoadPrediction | None:
    """Every block has some tensor, and no tensor belongs to a block beyond the last."""
    if meta.architecture in _NO_BLOCK_TENSORS:
        return None
    blocks = {int(match[1]) for match in map(_BLOCK.match, names) if match}
    missing = [i for i in range(meta.layer_count) if i not in blocks]
    if missing:
        return refusal("tensor-missing", f"block {missing[0]} of {meta.block_count} has no tensors")
    beyond = sorted(i for i in blocks if i >= meta.block_count)
    if beyond:
        return refusal(
            "tensor-unexpected", f"there are tensors of block {beyond[0]}, but block_count is {meta.block_count}"
        )
    return None
