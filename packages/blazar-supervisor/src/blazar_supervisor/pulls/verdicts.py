"""Which variants of a repository fit, known from one header read over the network. Blocks while it reads.

The variants of a repository are one model at several precisions: layers, heads and cache are the same, the weights
differ, and by how much the listing says. So one header is read, of the smallest variant, and the others are judged
with the difference of their sizes added.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from blazar_budget import Launch, Memory, Refuse, default_context, unified_ctx_verdict
from blazar_gguf import GgufError, GgufMeta
from blazar_gguf.errors import RemoteError
from blazar_supervisor.pulls.choosing import Fits, Judged
from blazar_supervisor.pulls.variants import Offer, RemoteFile, Variant, VariantKind

ReadHeader = Callable[[RemoteFile], GgufMeta]
_GIB = 1 << 30
_TRIES = 3


def judge_offer(offer: Offer, read_header: ReadHeader, launch: Launch, memory: Memory | None) -> tuple[Judged, ...]:
    """Return every variant with its verdict, in the offer's order.

    Args:
        offer: What there is.
        read_header: Fetches a file's header.
        launch: How it would be started, apart from the context.
        memory: What the machine has when nothing is loaded, or ``None`` when that is unknown.
    """
    reference = next((v for v in offer.variants if v.complete and v.kind is VariantKind.GGUF), None)
    if memory is None:
        return tuple(Judged(variant, Fits.UNKNOWN) for variant in offer.variants)
    if reference is None:
        return tuple(_by_weight(variant, memory) for variant in offer.variants)
    try:
        meta = read_header(reference.files[0])
    except GgufError as error:
        return tuple(Judged(variant, Fits.UNKNOWN, detail=str(error)) for variant in offer.variants)
    projector = offer.projectors[0].size if offer.projectors else 0
    known = reference.files[0].size
    return tuple(_judge(variant, meta, launch, memory, variant.size - known + projector) for variant in offer.variants)


def _judge(variant: Variant, meta: GgufMeta, launch: Launch, memory: Memory, more_bytes: int) -> Judged:
    if variant.kind is not VariantKind.GGUF or not variant.complete:
        return _by_weight(variant, memory)
    launch = replace(launch, extra_device_bytes=launch.extra_device_bytes + max(0, more_bytes))
    ctx = default_context(meta, launch, memory).ctx
    verdict = unified_ctx_verdict(meta, launch.with_ctx(ctx), memory)
    if isinstance(verdict, Refuse):
        return Judged(variant, Fits.NO, ctx, verdict.text)
    needed = verdict.footprint.needed_bytes
    pool = verdict.footprint.pool_bytes
    detail = f"needs {needed / _GIB:.1f} of {pool / _GIB:.1f} GiB with {ctx:,} tokens of context"
    plain = verdict.answer.value == "fit"
    return Judged(variant, Fits.YES if plain else Fits.TIGHT, ctx, detail)


def _by_weight(variant: Variant, memory: Memory) -> Judged:
    """Judge what no header tells of: weights alone that are more than the memory do not fit, the rest is not known."""
    if variant.kind is VariantKind.GGUF:
        return Judged(variant, Fits.UNKNOWN)
    room = max(memory.ram_bytes, memory.device_bytes)
    if variant.size > room:
        detail = f"its files alone are {variant.size / _GIB:.1f} GiB, and there are {room / _GIB:.1f} GiB"
        return Judged(variant, Fits.NO, detail=detail)
    return Judged(variant, Fits.UNKNOWN, detail="the memory verdict is for GGUF files; of this only the size is known")


def read_patiently(read: Callable[[], GgufMeta]) -> GgufMeta:
    """Read a header, again if the network failed: a verdict is worth three tries. Blocks.

    Raises:
        GgufError: It is no header, or the network failed three times.
    """
    for _ in range(_TRIES - 1):
        try:
            return read()
        except RemoteError:
            continue
    return read()


def labels_of(variants: Sequence[Variant]) -> str:
    """Return the labels for a sentence: ``Q4_K_M, Q8_0``."""
    return ", ".join(dict.fromkeys(variant.label for variant in variants))
