"""A memory verdict as a picture: a bar for each device, what fills it, and what there is. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blazar_budget import HOST, Demand, FitWithWarning, Footprint, Refuse, Verdict
from blazar_cli.output import human_bytes

WIDTH = 50
"""Characters of a bar that stands for all of a device's memory (or for the need, where that is more)."""

_MARKS = (("weights", "#"), ("kv cache", "="), ("state", "~"), ("extra", "+"), ("compute, overhead", "-"))


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar.

    Attributes:
        name: What it is.
        mark: The character that draws it.
        size: Bytes.
    """

    name: str
    mark: str
    size: int


def segments(demand: Demand) -> tuple[Segment, ...]:
    """Return what fills a device, in the order of drawing; empty parts are left out."""
    sizes = (
        demand.weights_bytes,
        demand.kv_bytes,
        demand.recurrent_bytes,
        demand.extra_bytes,
        demand.overhead_bytes,
    )
    parts = (Segment(name, mark, size) for (name, mark), size in zip(_MARKS, sizes, strict=True))
    return tuple(part for part in parts if part.size > 0)


def bar(parts: Sequence[Segment], capacity: int, *, width: int = WIDTH) -> str:
    """Return the bar: parts by their marks, then dots for what is free; ``|`` marks the end of what there is.

    Every part that exists is at least one character wide.
    """
    needed = sum(part.size for part in parts)
    scale = max(capacity, needed, 1)
    drawn = "".join(part.mark * max(1, round(width * part.size / scale)) for part in parts)
    end = round(width * capacity / scale)
    if needed <= capacity:
        return f"[{drawn[:end]}{'.' * max(0, end - len(drawn))}]"
    return f"[{drawn[:end]}|{drawn[end:]}"


def picture(footprint: Footprint) -> Iterator[str]:
    """Yield the lines: for each device a bar, the sums, and the parts with their sizes."""
    for demand in footprint.demands:
        parts = segments(demand)
        if demand.needed_bytes == 0 or (demand.device == HOST and not parts):
            continue
        name = "main memory" if demand.device == HOST else demand.device
        share = f"{demand.needed_bytes / demand.capacity_bytes:.0%}" if demand.capacity_bytes else "more than there is"
        yield f"{name}: {human_bytes(demand.needed_bytes)} of {human_bytes(demand.capacity_bytes)} ({share})"
        yield f"  {bar(parts, demand.capacity_bytes)}"
        for part in parts:
            yield f"  {part.mark} {part.name:<18}{human_bytes(part.size):>11}"


def verdict_words(verdict: Verdict) -> Iterator[str]:
    """Yield the verdict in words: yes, yes but, or the text that teaches."""
    if isinstance(verdict, Refuse):
        yield f"It does not fit: {verdict.text}"
        return
    yield "It fits."
    if isinstance(verdict, FitWithWarning):
        for warning in verdict.warnings:
            yield f"{warning[:1].upper()}{warning[1:]}" + ("" if warning.endswith(".") else ".")
