"""The tokenizer's keys: what the engine needs to build a vocabulary."""

from collections.abc import Iterator
from typing import Final

from blazar_gguf.engine.keys import check_scalar
from blazar_gguf.engine.names import names
from blazar_gguf.engine.objection import abortion, refusal
from blazar_gguf.meta import GgufMeta
from blazar_gguf.shape import TOKENS_KEY
from blazar_gguf.types import LoadPrediction, ValueType
from blazar_gguf.values import SIZES, Field, LazyArray

_PREFIX: Final = "tokenizer.ggml."
_BPE: Final = frozenset({"gpt2", "hybriddna", "whitespace", "gemma4"})
_MODELS: Final = _BPE | {"llama", "bert", "t5", "rwkv", "plamo2"}
_WITHOUT_TOKENS: Final = frozenset({"none", "no_vocab"})

PRE_TOKENIZERS: Final = names("pre-tokenizers")
"""Names of ``tokenizer.ggml.pre`` the engine knows; another one in a byte-pair vocabulary is refused."""

_BOOL_KEYS: Final = ("add_bos_token", "add_eos_token", "add_sep_token")
_ID_KEYS: Final = tuple(
    f"{name}_token_id"
    for name in (
        *("bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask"),
        *("fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep", "prefix", "suffix", "middle"),
    )
)


def check_vocabulary(meta: GgufMeta) -> LoadPrediction | None:
    """All tokenizer keys, in the engine's order.

    Reads the token list (the engine asserts that no token appears twice), which takes a tenth of a second for 262,144.
    """
    return next((found for found in _objections(meta) if found is not None), None)


def _find(meta: GgufMeta, name: str) -> Field | None:
    return meta.fields.find(_PREFIX + name)


def _objections(meta: GgufMeta) -> Iterator[LoadPrediction | None]:
    model = _find(meta, "model")
    if model is None:
        yield refusal("key-missing", f"key {_PREFIX}model is missing")
        return
    yield check_scalar(model, ValueType.STRING)
    yield from _scalars(meta, ("pre",), ValueType.STRING)
    yield from _scalars(meta, ("token_type_count",), ValueType.U32)
    name, pre = meta.text(_PREFIX + "model"), meta.text(_PREFIX + "pre")
    if name in _WITHOUT_TOKENS:
        size = meta.fields.find(f"{meta.architecture}.vocab_size")
        yield None if size is None else check_scalar(size, ValueType.U32)
        return
    if name not in _MODELS:
        yield refusal("tokenizer-unknown", f"tokenizer model {name!r} is unknown to the engine", build_specific=True)
    if name in _BPE:
        yield _check_merges(meta, needed=pre != "kimi-k2" or name == "gemma4")
    if name in _BPE and name != "gemma4" and pre and pre not in PRE_TOKENIZERS:
        yield refusal("tokenizer-unknown", f"pre-tokenizer {pre!r} is unknown to the engine", build_specific=True)
    if name in {"t5", "plamo2"}:
        yield _check_charsmap(meta) if name == "t5" else None
    yield from _scalars(meta, ("add_space_prefix", "remove_extra_whitespaces"), ValueType.BOOL)
    yield _check_tokens(meta)
    yield from _scalars(meta, _ID_KEYS, ValueType.U32)
    yield from _scalars(meta, _BOOL_KEYS, ValueType.BOOL)
    yield from _scalars(meta, ("normalizer.lowercase", "normalizer.strip_accents"), ValueType.BOOL)
    yield _check_not_text(_find(meta, "suppress_tokens"))


def _scalars(meta: GgufMeta, names: tuple[str, ...], wanted: ValueType) -> Iterator[LoadPrediction | None]:
    for name in names:
        field = _find(meta, name)
        if field is not None:
            yield check_scalar(field, wanted)


def _is_text(field: Field) -> bool:
    return (field.element_type or field.type) is ValueType.STRING


def _check_merges(meta: GgufMeta, *, needed: bool) -> LoadPrediction | None:
    field = _find(meta, "merges")
    if field is None:
        return refusal("tokenizer-merges", f"{_PREFIX}merges is missing") if needed else None
    if field.count and not _is_text(field):
        return abortion("tokenizer-merges", f"{field.key} holds {field.type_label} where the engine asserts strings")
    return None


def _check_charsmap(meta: GgufMeta) -> LoadPrediction | None:
    field = _find(meta, "precompiled_charsmap")
    if field is None:
        return None
    if field.element_type not in {ValueType.U8, ValueType.I8}:
        return abortion("tokenizer-charsmap", f"{field.key} holds {field.type_label} where the engine asserts bytes")
    if field.count < 4:
        return refusal("tokenizer-charsmap", f"{field.key} is too short")
    declared = int.from_bytes(field.raw()[:4], "little") if field.source is not None else 0
    if declared + 4 >= field.count:
        return refusal("tokenizer-charsmap", f"{field.key} declares more bytes than it has")
    return None


def _check_not_text(field: Field | None) -> LoadPrediction | None:
    if field is not None and _is_text(field):
        return abortion("tokenizer-array", f"{field.key} holds strings where the engine asserts numbers")
    return None


def _check_tokens(meta: GgufMeta) -> LoadPrediction | None:
    tokens = meta.fields.find(TOKENS_KEY)
    if tokens is None:
        return refusal("key-missing", f"{TOKENS_KEY} is missing")
    for name in ("scores", "token_type"):
        field = _find(meta, name)
        if field is None:
            continue
        if field.count < tokens.count:
            return refusal("tokenizer-array", f"{field.key} has {field.count} entries for {tokens.count} tokens")
        objection = _check_not_text(field)
        if objection is not None:
            return objection
        if name == "token_type" and SIZES.get(field.element_type or field.type) != 4:
            return refusal("tokenizer-array", f"{field.key} holds {field.type_label}; the engine reads it as i32")
    if not tokens.count:
        return None
    if not _is_text(tokens):
        return abortion("tokenizer-tokens", f"{tokens.key} holds {tokens.type_label} where the engine asserts strings")
    repeated = _repeated(tokens)
    if repeated is not None:
        return abortion("tokenizer-tokens", f"token {repeated!r} appears twice; the engine asserts that none does")
    return None


def _repeated(tokens: Field) -> bytes | None:
    """A token that appears twice, as the engine compares them: up to the first NUL, empty ones numbered."""
    value = tokens.value
    if isinstance(value, LazyArray):
        raws = value.load_bytes()
    else:
        items = value if isinstance(value, tuple) else (value,)
        raws = [str(item).encode() for item in items]
    distinct = set(raws)
    if len(distinct) == len(raws) and b"" not in distinct and b"\0" not in b"".join(raws):
        return None
    seen: set[bytes] = set()
    for place, raw in enumerate(raws):
        text = raw.split(b"\0", 1)[0] or b"[EMPTY_%d]" % place
        if text in seen:
            return text
        seen.add(text)
    return None
