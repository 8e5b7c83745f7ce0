"""How well a child's cache and guesses do, from what its engine counts. Pure.

What grew between two looks gives a share, and the shares are averaged with weight 0.7 for what was known and 0.3 for
what is new. A counter that went back has begun anew with its process.
"""

from dataclasses import dataclass

from blazar_supervisor.engines.counters import Counters

OLD_WEIGHT = 0.7
NEW_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class CacheHints:
    """Shares from 0.0 to 1.0, or ``None`` where nothing is known.

    Attributes:
        cache_hint: Of the prompts' tokens, those found in a cache.
        spec_accept: Of the tokens guessed ahead, those that were right.
    """

    cache_hint: float | None = None
    spec_accept: float | None = None


NOTHING_KNOWN = CacheHints()


def share(part: float | None, whole: float | None) -> float | None:
    """Return ``part`` of ``whole`` within 0.0 and 1.0, or ``None`` when either is unknown or there was nothing."""
    if part is None or whole is None or whole <= 0:
        return None
    return min(1.0, max(0.0, part / whole))


def smooth(old: float | None, new: float | None) -> float | None:
    """Return the average that goes on from ``old`` with ``new``; either stands alone where the other is unknown."""
    if old is None or new is None:
        return new if old is None else old
    return OLD_WEIGHT * old + NEW_WEIGHT * new


def hints_after(before: Counters, now: Counters, known: CacheHints) -> CacheHints:
    """Return what is known after a child's counters went from ``before`` to ``now``."""
    prompt = _grown(before.prompt_tokens, now.prompt_tokens)
    cached = _grown(before.cached_tokens, now.cached_tokens)
    read = None if prompt is None or cached is None else prompt + cached
    drafted = _grown(before.drafted_tokens, now.drafted_tokens)
    accepted = _grown(before.accepted_tokens, now.accepted_tokens)
    return CacheHints(
        cache_hint=smooth(known.cache_hint, share(cached, read)),
        spec_accept=smooth(known.spec_accept, share(accepted, drafted)),
    )


def _grown(before: float | None, now: float | None) -> float | None:
    if now is None:
        return None
    return now - before if before is not None and now >= before else now
