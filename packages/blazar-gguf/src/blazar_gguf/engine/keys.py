"""The keys a model needs, in the order and of the types in which the engine reads them.

The engine is strict: a number must be stored in exactly the expected type, per-layer arrays must have exactly one
entry for each block. Some impossible values are caught by assertions, which abort the whole process; those are the
ones worth knowing before anything is spawned.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from blazar_gguf.engine.names import names
from blazar_gguf.engine.objection import abortion, refusal
from blazar_gguf.hparams import MAX_LAYERS
from blazar_gguf.meta import GgufMeta
from blazar_gguf.types import LoadPrediction, ValueType
from blazar_gguf.values import Field

MAX_EXPERTS: Final = 512
ROPE_SCALINGS: Final = frozenset({"none", "linear", "yarn", "longrope"})
_STRICT_ROPE: Final = frozenset({"llama", "llama-embed", "deci", "falcon"})

_FLOATS: Final = names("float-keys")
_BOOLS: Final = names("bool-keys")
_STRINGS: Final = frozenset({"rope.scaling.type", "hidden_activation"})
_NO_ARCHITECTURE_PREFIX: Final = ("xielu.",)
_READABLE_ELEMENTS: Final = {
    # what the engine makes of an array's element type when it wants numbers of its own: read, abort, refuse
    ValueType.U32: "int",
    ValueType.I32: "int",
    ValueType.BOOL: "int",
    ValueType.F32: "float",
    ValueType.STRING: "str",
}


@dataclass(frozen=True, slots=True)
class KeyRule:
    """One key as an architecture reads it.

    Attributes:
        suffix: the key without ``<arch>.``.
        required: absence is an error.
        shape: ``""`` a scalar; ``~`` a scalar, arrays ignored; ``[]`` per block; ``[4]``; ``[*]`` an array.
        conditional: read in some cases only.
    """

    suffix: str
    required: bool
    shape: str
    conditional: bool


@cache
def architectures() -> Mapping[str, tuple[KeyRule, ...]]:
    """All architectures the engine can serve, with the keys each reads."""
    found: dict[str, tuple[KeyRule, ...]] = {}
    same: dict[str, str] = {}
    for line in (files(__package__) / "architectures.txt").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, words = line.partition(":")
        if words.strip().startswith("="):
            same[name] = words.strip()[1:].strip()
        else:
            found[name] = tuple(_rule(word) for word in words.split())
    return found | {name: found[other] for name, other in same.items()}


def _rule(word: str) -> KeyRule:
    conditional, word = word.startswith(">"), word.removeprefix(">")
    required, word = not word.endswith("?"), word.removesuffix("?")
    shape = ""
    for mark in ("[]", "[4]", "[*]", "~"):
        if word.endswith(mark):
            shape, word = mark, word.removesuffix(mark)
    word = {"RMS": "attention.layer_norm_rms_epsilon", "EPS": "attention.layer_norm_epsilon"}.get(word, word)
    return KeyRule(word, required and not conditional, shape, conditional)


def expected_type(suffix: str) -> ValueType:
    """The one type the engine accepts for a scalar key."""
    if suffix in _FLOATS:
        return ValueType.F32
    if suffix in _BOOLS:
        return ValueType.BOOL
    return ValueType.STRING if suffix in _STRINGS else ValueType.U32


def check_scalar(field: Field, wanted: ValueType) -> LoadPrediction | None:
    """The engine's "key … has wrong type"."""
    if field.type is wanted:
        return None
    return refusal("key-type", f"{field.key} is stored as {field.type.label}, the engine wants {wanted.label}")


class KeyCheck:
    """Goes through the keys of one header as the engine would."""

    def __init__(self, meta: GgufMeta) -> None:
        self.meta = meta
        self.arch = meta.architecture

    def find(self, suffix: str) -> Field | None:
        """The field of an architecture key."""
        prefixed = suffix if suffix.startswith(_NO_ARCHITECTURE_PREFIX) else f"{self.arch}.{suffix}"
        return self.meta.fields.find(prefixed)

    def scalar(self, suffix: str, *, required: bool = False) -> LoadPrediction | None:
        """A key with one value of one type."""
        field = self.find(suffix)
        if field is None:
            return refusal("key-missing", f"key {self.arch}.{suffix} is missing") if required else None
        return check_scalar(field, expected_type(suffix))

    def per_block(self, suffix: str, count: int, *, required: bool = False) -> LoadPrediction | None:
        """A key with one value for all blocks, or an array of exactly ``count``."""
        field = self.find(suffix)
        if field is None or field.type is not ValueType.ARRAY:
            return self.scalar(suffix, required=required)
        if field.count != count:
            return refusal("key-array-length", f"{field.key} has {field.count} entries, the engine wants {count}")
        return self.array(field, expected_type(suffix))

    def array(self, field: Field, wanted: ValueType) -> LoadPrediction | None:
        """The elements of an array: some wrong types are refused, others abort the engine."""
        element = field.element_type
        kind = _READABLE_ELEMENTS.get(element) if element is not None else None
        if kind is None:
            label = element.label if element is not None else field.type.label
            return refusal("key-array-type", f"{field.key} holds {label} elements, which the engine cannot read")
        wanted_kind = {ValueType.F32: "float", ValueType.STRING: "str"}.get(wanted, "int")
        if kind != wanted_kind:
            return abortion(
                "key-array-type",
                f"{field.key} holds {field.type_label} where the engine asserts {wanted.label} elements",
            )
        return None

    def rule(self, rule: KeyRule) -> LoadPrediction | None:
        """One entry of the table."""
        field = self.find(rule.suffix)
        match rule.shape:
            case "[]":
                return self.per_block(rule.suffix, self.blocks_of(rule), required=rule.required)
            case "[4]":
                return self.per_block(rule.suffix, 4, required=rule.required)
            case "[*]":
                if field is None or field.type is not ValueType.ARRAY:
                    missing = refusal("key-missing", f"the array {self.arch}.{rule.suffix} is missing")
                    return missing if rule.required else None
                return self.array(field, ValueType.U32)
            case "~" if field is not None and field.type is ValueType.ARRAY:
                return refusal("key-type", f"{field.key} is an array") if rule.required else None
            case _:
                return self.scalar(rule.suffix, required=rule.required)

    def blocks_of(self, rule: KeyRule) -> int:
        """Entries a per-block array must have where this key is read."""
        counts_all = rule.suffix == "attention.recurrent_layers"
        nextn = self.meta.nextn_predict_layers if self._nextn_read_before(rule) and not counts_all else 0
        return max(0, self.meta.block_count - nextn)

    def _nextn_read_before(self, rule: KeyRule) -> bool:
        rules = [r.suffix for r in architectures()[self.arch]]
        return "nextn_predict_layers" in rules[: rules.index(rule.suffix)]


def check_keys(meta: GgufMeta) -> LoadPrediction | None:
    """Every key the engine reads before it looks at the tokenizer.

    Returns:
        The first objection in the engine's order, or None.
    """
    check = KeyCheck(meta)
    return next((found for found in _objections(check) if found is not None), None)


def _objections(check: KeyCheck) -> Iterator[LoadPrediction | None]:
    meta = check.meta
    name = meta.fields.find("general.name")
    if name is not None:
        yield check_scalar(name, ValueType.STRING)
    yield check.scalar("context_length", required=True)
    yield check.scalar("embedding_length", required=True)
    for suffix in ("embedding_length_out", "attention.causal", "pooling_type"):
        yield check.scalar(suffix)
    yield check.scalar("block_count", required=True)
    if not 0 < meta.block_count <= MAX_LAYERS:
        yield abortion(
            "block-count", f"block_count is {meta.block_count:,}; the engine aborts unless it is 1 to {MAX_LAYERS}"
        )
    for suffix in ("expert_count", "expert_used_count", "expert_group_count", "expert_group_used_count"):
        yield check.scalar(suffix)
    yield _check_experts(meta)
    for suffix in ("feed_forward_length", "attention.head_count", "attention.head_count_kv"):
        yield check.per_block(suffix, meta.block_count)
    for suffix in (
        "rope.scaling.finetuned",
        "rope.scaling.original_context_length",
        "rope.freq_base",
        "rope.scaling.type",
    ):
        yield check.scalar(suffix)
    scaling = meta.arch("rope.scaling.type")
    if scaling is not None and scaling not in ROPE_SCALINGS:
        yield abortion(
            "rope-scaling",
            f"rope.scaling.type {scaling!r} is unknown; the engine asserts {', '.join(sorted(ROPE_SCALINGS))}",
        )
    for suffix in ("rope.scaling.factor", "rope.scale_linear", "rope.scaling.attn_factor", "rope.scaling.alpha"):
        yield check.scalar(suffix)
    if meta.head_counts and meta.head_counts[0]:
        for suffix in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
            yield check.scalar(suffix)
        rot = meta.arch_int("rope.dimension_count", meta.key_length)
        if meta.architecture in _STRICT_ROPE and rot != meta.key_length:
            yield refusal(
                "rope-dimensions", f"rope.dimension_count is {rot}, the key heads have {meta.key_length} elements"
            )
    for suffix in ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"):
        yield check.scalar(suffix)
    labels = check.find("classifier.output_labels")
    if labels is not None and labels.type is ValueType.ARRAY:
        yield check.array(labels, ValueType.STRING)
    for rule in architectures()[meta.architecture]:
        yield check.rule(rule)
    yield _check_architecture(meta)


def _check_experts(meta: GgufMeta) -> LoadPrediction | None:
    count, used = meta.arch_int("expert_count"), meta.arch_int("expert_used_count")
    groups, groups_used = meta.arch_int("expert_group_count"), meta.arch_int("expert_group_used_count")
    if meta.architecture.startswith("hunyuan") and meta.architecture != "hunyuan-moe" and count <= 1:
        count = used = 0
    if count > MAX_EXPERTS:
        return abortion("expert-count", f"expert_count is {count:,}; the engine asserts at most {MAX_EXPERTS}")
    if used > count:
        return abortion("expert-count", f"expert_used_count is {used}, more than the {count} experts there are")
    if count and not used:
        return abortion("expert-count", f"there are {count} experts and expert_used_count is 0")
    if (count and groups >= count) or (not count and groups):
        return abortion("expert-groups", f"expert_group_count is {groups} for {count} experts")
    if groups > 1 and (count % groups or not 0 < groups_used < groups):
        return abortion("expert-groups", f"{count} experts cannot be used as {groups_used} of {groups} groups")
    return None


_NEXTN_MUST_LEAVE_BLOCKS: Final = names("nextn-must-leave-blocks")


def _check_architecture(meta: GgufMeta) -> LoadPrediction | None:
    """Assertions that single architectures make about their own keys."""
    arch, blocks = meta.architecture, meta.block_count
    if arch in _NEXTN_MUST_LEAVE_BLOCKS and meta.nextn_predict_layers >= blocks:
        return abortion("nextn-layers", f"nextn_predict_layers is {meta.nextn_predict_layers} of {blocks} blocks")
    if arch == "nanbeige":
        loops = meta.arch_int("num_loops", 1)
        if loops < 1 or loops * blocks > MAX_LAYERS:
            return abortion(
                "loop-count", f"num_loops is {loops} for {blocks} blocks; the engine asserts 1 to {MAX_LAYERS} layers"
            )
    if arch in {"qwen3next", "qwen35", "qwen35moe"}:
        has_array = meta.arch("attention.recurrent_layers") is not None
        if not has_array and meta.arch_int("full_attention_interval", 4) == 0:
            return abortion("attention-interval", "full_attention_interval is 0; the engine divides by it")
    if arch == "graniteswitch":
        lists = [meta.fields.find(f"{arch}.adapters.token_ids_{use}") for use in ("activate", "substitute")]
        count = meta.arch_int("adapters.count")
        if any(found is not None and found.count != count for found in lists):
            return refusal("adapter-tokens", f"the lists of adapter tokens do not match the {count} adapters")
    if arch == "gemma-embedding":
        for suffix in ("dense_2_feat_in", "dense_3_feat_out"):
            size = meta.arch_int(suffix)
            if size not in {0, meta.embedding_length}:
                return abortion("dense-size", f"{suffix} is {size}, the engine asserts {meta.embedding_length}")
    return None
