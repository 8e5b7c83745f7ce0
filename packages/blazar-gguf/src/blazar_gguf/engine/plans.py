"""The table of tensors, read and applied: which tensors of which shape an architecture wants.

``tensors.txt`` beside this module is the table and explains its own notation.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from blazar_gguf.attention import RECURRENT
from blazar_gguf.engine.sizes import Sizes
from blazar_gguf.meta import GgufMeta

_SUFFIXES: Final = frozenset({"weight", "bias", "scale", "scales", "lora_a", "lora_b"})
_QKV: Final = ("qkv", "q", "k", "v")
_LARGE_COMMAND_R: Final = 64


@dataclass(frozen=True, slots=True)
class Wanted:
    """One tensor the engine asks for: its name, its shape (fastest first), and whether it may be absent."""

    name: str
    dims: tuple[int, ...]
    required: bool


@dataclass(frozen=True, slots=True)
class _Item:
    """A tensor in the table; ``name`` is complete but for ``blk.N.``, or ``qkv`` for the projections."""

    name: str
    required: bool
    dims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Section:
    conditions: tuple[str, ...]
    items: tuple[_Item, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The sections of one architecture."""

    per_block: bool
    top: tuple[_Section, ...]
    blocks: tuple[_Section, ...]


def _parse_item(word: str) -> list[_Item]:
    name, _, shape = word.partition(":")
    dims = tuple(shape.split(",")) if shape else ("e",)
    both = name.endswith("+")
    name = name.removesuffix("+")
    required = not name.endswith("?")
    name = name.removesuffix("?")
    if name == "qkv":
        return [_Item("qkv", required, dims if shape else _QKV[1:])]
    if name.endswith("."):
        return [_Item(name[:-1], required, dims)]
    if name.rpartition(".")[2] not in _SUFFIXES:
        items = [_Item(f"{name}.weight", required, dims)]
        return [*items, _Item(f"{name}.bias", required, dims)] if both else items
    return [_Item(name, required, dims)]


def _expand(words: list[str], macros: Mapping[str, list[str]]) -> Iterator[str]:
    for word in words:
        if word in macros:
            yield from _expand(macros[word], macros)
        else:
            yield word


@cache
def plans() -> Mapping[str, Plan]:
    """All architectures in the table."""
    macros: dict[str, list[str]] = {}
    found: dict[str, Plan] = {}
    names: list[str] = []
    per_block = False
    sections: list[_Section] = []

    def close() -> None:
        if not names:
            return
        top = tuple(s for s in sections if s.conditions[0] == "top")
        blocks = tuple(s for s in sections if s.conditions[0] != "top")
        for name in names:
            found[name] = Plan(per_block, top, blocks)

    for line in (files(__package__) / "tensors.txt").read_text("utf-8").splitlines():
        words = line.split()
        if not words or line.startswith("#"):
            continue
        if len(words) > 1 and words[1] == "=":
            macros[words[0]] = words[2:]
        elif not line[0].isspace():
            close()
            names, per_block, sections = words, False, []
        elif words[0] == "sizes":
            per_block = True
        else:
            items = [item for word in _expand(words[1:], macros) for item in _parse_item(word)]
            sections.append(_Section(tuple(words[0].split("&")), tuple(items)))
    close()
    return found


@cache
def _terms(expression: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(term.split("*")) for term in expression.split("+"))


def _value(expression: str, sizes: Mapping[str, int]) -> int:
    """Evaluate a sum of products of numbers and names."""
    total = 0
    for term in _terms(expression):
        product = 1
        for factor in term:
            product *= int(factor) if factor.isdigit() else sizes[factor]
        total += product
    return total


class Expectation:
    """The tensors one model must have.

    Args:
        meta: its header.
        plan: the architecture's entry in the table.
        names: the tensors the file has.
    """

    def __init__(self, meta: GgufMeta, plan: Plan, names: frozenset[str]) -> None:
        self._meta = meta
        self._plan = plan
        self._names = names
        self.sizes = Sizes(meta, per_block=plan.per_block)

    def tensors(self) -> Iterator[Wanted]:
        """What the engine asks for, in the table's order."""
        for section in self._plan.top:
            if self._holds(section.conditions[1:], 0):
                yield from self._wanted(section, "", self.sizes.block(0), required=True)
        first_nextn = self.sizes.trunk_layers
        absent_nextn = f"blk.{first_nextn}.nextn.eh_proj.weight" not in self._names and self._meta.architecture in {
            "deepseek2",
            "mistral4",
            "deepseek32",
            "glm-dsa",
            "mimo2",
            "step35",
        }
        for i in range(self._meta.layer_count):
            required = i < first_nextn or not absent_nextn
            for section in self._plan.blocks:
                if self._holds(section.conditions, i):
                    yield from self._wanted(
                        section, f"blk.{i}.", self.sizes.block(i), required=required, skipped=i >= first_nextn
                    )

    def _wanted(
        self, section: _Section, prefix: str, sizes: Mapping[str, int], *, required: bool, skipped: bool = False
    ) -> Iterator[Wanted]:
        """The tensors of one section; of a skipped block the engine does not insist on the projections."""
        for item in section.items:
            dims = tuple(_value(d, sizes) for d in item.dims)
            if item.name == "qkv":
                must = required and item.required and not skipped
                yield from self._projections(prefix, sizes["e"], dims, required=must, both=skipped)
            else:
                side, slash, name = item.name.rpartition("/")
                yield Wanted(f"{side}.{prefix}{name}" if slash else prefix + name, dims, required and item.required)

    def _projections(
        self, prefix: str, width: int, outputs: tuple[int, ...], *, required: bool, both: bool
    ) -> Iterator[Wanted]:
        """Query, key and value as one fused matrix or as three (or ``both``); biases are always optional."""
        fused = f"{prefix}attn_qkv.weight"
        if fused in self._names or both:
            yield Wanted(fused, (width, sum(outputs)), required)
            yield Wanted(f"{prefix}attn_qkv.bias", (sum(outputs),), required=False)
        if fused not in self._names or both:
            for letter, output in zip(_QKV[1:], outputs, strict=True):
                yield Wanted(f"{prefix}attn_{letter}.weight", (width, output), required)
                yield Wanted(f"{prefix}attn_{letter}.bias", (output,), required=False)

    def _holds(self, conditions: tuple[str, ...], i: int) -> bool:
        return all(not self._condition(c[1:], i) if c.startswith("!") else self._condition(c, i) for c in conditions)

    def _condition(self, name: str, i: int) -> bool:
        m, sizes = self._meta, self.sizes
        if name.startswith("has:"):
            return f"blk.{i}.{name[4:]}.weight" in self._names
        match name:
            case "each":
                return True
            case "first":
                return i == 0
            case "decoder":
                return i < m.arch_int("decoder_block_count", m.block_count)
            case "nextn":
                return i >= sizes.trunk_layers
            case "moe":
                return m.expert_count > 0
            case "lead":
                return m.architecture == "lfm2" or i < m.arch_int("leading_dense_block_count")
            case "recr":
                return m.architecture in RECURRENT or m.recurrent_layers[i]
            case "step":
                step = m.arch_int("interleave_moe_layer_step")
                return step > 0 and (i + 1) % step == 0
            case "longrope":
                return m.arch("rope.scaling.type") == "longrope"
            case "shexp":
                return m.arch_int("expert_shared_feed_forward_length") > 0 and m.architecture not in {
                    "llama",
                    "llama-embed",
                    "mistral3",
                    "refact",
                    "minicpm",
                }
            case "sharedx":
                return m.arch_int("expert_shared_count") > 0
            case "sparse45":
                return m.architecture == "ernie4_5-moe" and i >= m.arch_int("leading_dense_block_count")
            case "large":
                return m.layer_count >= _LARGE_COMMAND_R
            case "perlayer":
                return m.arch_int("embedding_length_per_layer_input") > 0
            case "kvown":
                return i < m.layer_count - m.arch_int("attention.shared_kv_layers")
            case "mla":
                return m.is_latent
            case "qlora":
                return m.q_lora_rank > 0
            case "heads":
                return sizes.block(i)["h"] > 0
            case "kvheads":
                return sizes.block(i)["hkv"] > 0
            case "ff":
                return sizes.block(i)["f"] > 0
            case "bert" | "nomic":
                return m.architecture == {"bert": "bert", "nomic": "nomic-bert"}[name]
            case "moeevery":
                every = m.arch_int("moe_every_n_layers")
                return every > 0 and i % every == 1
            case _:
                raise KeyError(name)


_SCALE: Final = re.compile(r"^blk\.\d+\.(?P<base>.+)\.(?:input_)?scale$")
_SCALED: Final = frozenset(
    {
        *(["attn_q", "attn_k", "attn_v", "attn_output", "attn_qkv", "attn_gate", "ffn_gate", "ffn_down", "ffn_up"]),
        *(["ffn_gate_shexp", "ffn_down_shexp", "ffn_up_shexp", "ffn_gate_exps", "ffn_down_exps", "ffn_up_exps"]),
        *(["ssm_in", "ssm_out", "ssm_alpha", "ssm_beta", "nextn.eh_proj", "nextn.shared_head_head"]),
    }
)


def is_scale_of(name: str, present: frozenset[str]) -> bool:
    """True for a scale that any architecture may have beside a weight (NVFP4 files)."""
    found = _SCALE.match(name)
    if found is None:
        return name in {"output.scale", "output.input_scale"} and "output.weight" in present
    weight = name[: found.end("base")] + ".weight"
    return found["base"] in _SCALED and weight in present


def expectation(meta: GgufMeta) -> Expectation | None:
    """What the engine wants of this model; None for an architecture that is not in the table."""
    plan = plans().get(meta.architecture)
    if plan is None:
        return None
    return Expectation(meta, plan, frozenset(t.name for t in meta.tensors))
