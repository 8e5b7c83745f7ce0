"""Which variant to take when nobody said. Pure.

The best quality that plainly fits: labels are ranked by how little they lose (in the order that llama.cpp's
perplexity tables give), and among those whose verdict is a fit, the best up to 8 bits is taken. 16 and 32 bit files
are taken only when there is nothing else: they cost twice the memory and bandwidth for no difference people see.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from blazar_supervisor.pulls.variants import Variant

_BY_QUALITY = (
    "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "MXFP4_MOE", "MXFP4", "NVFP4", "Q4_K_S", "IQ4_NL",
    "IQ4_XS", "Q4_1", "Q4_0", "Q3_K_L", "Q3_K_M", "IQ3_M", "IQ3_S", "Q3_K_S", "IQ3_XS", "IQ3_XXS", "Q2_K", "IQ2_M",
    "Q2_K_S", "IQ2_S", "IQ2_XS", "IQ2_XXS", "TQ2_0", "IQ1_M", "TQ1_0", "IQ1_S",
)  # fmt: skip
_DEFAULT = "Q4_K_M"
"""The label taken when nothing is known of the memory: the common balance of size and loss."""


class Fits(StrEnum):
    """A variant's verdict, before it is fetched."""

    YES = "fits"
    TIGHT = "tight"
    NO = "does not fit"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Judged:
    """A variant with its verdict.

    Attributes:
        variant: What it is.
        fits: Whether this machine can serve it.
        ctx_tokens: The context it would be served with, or ``None``.
        detail: The verdict in words, or ``""``.
    """

    variant: Variant
    fits: Fits
    ctx_tokens: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice and its reason.

    Attributes:
        judged: What is taken, or ``None`` when nothing can be.
        reason: Why, in a sentence.
    """

    judged: Judged | None
    reason: str


def choose(judged: Sequence[Judged]) -> Choice:
    """Return what to take of all that a repository offers, when the name did not say."""
    whole = [one for one in judged if one.variant.complete]
    if not whole:
        return Choice(None, "the repository has no complete model")
    if len(whole) == 1:
        return Choice(whole[0], "it is the only one in the repository")
    for wanted, why in (
        (Fits.YES, "the best quality that fits this machine"),
        (Fits.TIGHT, "nothing fits with room to spare"),
    ):
        fitting = [one for one in whole if one.fits is wanted]
        if fitting:
            best = min(fitting, key=_loss)
            return Choice(
                best,
                f"{best.variant.label} is {why}" if wanted is Fits.YES else f"{why}; {best.variant.label} is tight",
            )
    unknown = [one for one in whole if one.fits is Fits.UNKNOWN]
    if unknown:
        default = next((one for one in unknown if _bare(one.variant.label) == _DEFAULT), None) or min(
            unknown, key=_loss
        )
        return Choice(
            default, f"{default.variant.label} is the usual balance of size and quality; the memory is not known"
        )
    return Choice(None, "nothing in the repository fits this machine")


def _loss(judged: Judged) -> tuple[int, int]:
    """Return the rank of a variant's quality, best first; a larger file of the same label is the better recipe."""
    label = _bare(judged.variant.label)
    if label in _BY_QUALITY:
        return _BY_QUALITY.index(label), -judged.variant.size
    return len(_BY_QUALITY), judged.variant.size


def _bare(label: str) -> str:
    """Return a label without the marks of dynamic recipes: ``UD-Q4_K_XL`` counts as ``Q4_K_M``."""
    label = label.upper().removeprefix("UD-")
    return f"{label[:-3]}_M" if label.endswith("_XL") else label
