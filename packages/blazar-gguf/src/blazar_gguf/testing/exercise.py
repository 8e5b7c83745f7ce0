"""Everything that can be done with the bytes of a file, done at once: what a fuzzer calls."""

from functools import cached_property
from typing import Final

from blazar_gguf.copying import copied
from blazar_gguf.engine.template_syntax import check_syntax
from blazar_gguf.engine.template_tokens import TemplateSyntaxError
from blazar_gguf.errors import GgufError
from blazar_gguf.hparams import MAX_LAYERS
from blazar_gguf.meta import GgufMeta
from blazar_gguf.prediction import would_load
from blazar_gguf.reader import parse_metadata
from blazar_gguf.report import facts
from blazar_gguf.source import BufferSource
from blazar_gguf.types import LoadPrediction
from blazar_gguf.walk import start

_PROPERTIES: Final = tuple(
    name
    for kind in GgufMeta.__mro__[:-1]
    for name, member in vars(kind).items()
    if isinstance(member, property | cached_property) and not name.startswith("_")
)


def exercise_header(data: bytes) -> LoadPrediction | None:
    """Read a header and look at all there is to see.

    Returns:
        The prediction, or None when the bytes are no readable header.

    Raises:
        AssertionError: something that must hold does not.
        Exception: anything else than a :class:`GgufError` inside is a defect and comes out as it is.
    """
    try:
        meta, consumed = parse_metadata(data)
    except GgufError:
        return None
    assert 0 < consumed <= len(data)
    for name in _PROPERTIES:
        value = getattr(meta, name)
        if isinstance(value, tuple) and name.endswith(("layers", "counts", "counts_kv", "lengths")):
            assert len(value) <= MAX_LAYERS
    for field in meta.fields.known.values():
        loaded = field.lazy.load() if field.lazy is not None else field.value
        assert loaded is not None
    assert list(facts(meta))
    _check_peek(data, meta)
    _check_copy(data, meta)
    return would_load(meta)


def _check_peek(data: bytes, whole: GgufMeta) -> None:
    """A peeked header that is read on holds the same."""
    walk = start(BufferSource(data))
    walk.run(pause=True)
    peeked = GgufMeta.from_walk(walk)
    assert peeked.vocab_size == whole.vocab_size or not peeked.complete
    assert list(peeked.fields) == list(whole.fields)
    assert peeked.tensors == whole.tensors


def _check_copy(data: bytes, meta: GgufMeta) -> None:
    """A copy without changes has the same keys, byte for byte, and the same tensors."""
    if meta.missing_bytes:
        return
    again, _ = parse_metadata(b"".join(copied(meta, BufferSource(data), {})))
    assert again.tensors == meta.tensors
    for key, field in meta.fields.known.items():
        other = again.fields.known[key]
        assert (other.type, other.element_type, other.count) == (field.type, field.element_type, field.count)
        assert other.raw() == field.raw()


def exercise_template(data: bytes) -> bool:
    """Parse a chat template; True when it parses."""
    try:
        check_syntax(data.decode("utf-8", "replace"))
    except TemplateSyntaxError:
        return False
    return True
