"""Weighted fair queueing across keys: who has had least, measured against its weight, goes next."""

from collections.abc import Collection, Iterable

RESET_AT = 256.0
"""Credit at which the buckets are rebased, so that the numbers stay small."""


class Credits:
    """What each key has been served, in serves divided by its weight.

    The key with the least credit goes next. A key that comes (back) starts at the least credit of those
    that wait, so that time away is not saved up. When a bucket reaches :data:`RESET_AT` all are rebased: their
    differences, which are what fairness is about, stay.
    """

    def __init__(self) -> None:
        self._spent: dict[str, float] = {}

    def join(self, key: str, waiting: Collection[str]) -> None:
        """Let ``key`` compete, from the level of those in ``waiting``."""
        if key in waiting and key in self._spent:
            return
        level = min((self._spent[other] for other in waiting if other in self._spent), default=0.0)
        self._spent[key] = max(self._spent.get(key, 0.0), level)

    def spend(self, key: str, *, slots: int, weight: int) -> None:
        """Charge ``key`` for one serve that takes ``slots`` slots."""
        self._spent[key] = self._spent.get(key, 0.0) + max(1, slots) / max(1, weight)
        if self._spent[key] >= RESET_AT:
            self._rebase()

    def least(self, keys: Iterable[str]) -> str:
        """Return the key that has had least; among equals the first."""
        return min(keys, key=lambda key: self._spent.get(key, 0.0))

    def keep_only(self, waiting: Collection[str]) -> None:
        """Forget keys that neither wait nor stand out, so that the table stays as small as the crowd."""
        floor = min((self._spent[key] for key in waiting if key in self._spent), default=None)
        for key in [key for key in self._spent if key not in waiting]:
            if floor is None or self._spent[key] <= floor:
                del self._spent[key]

    def __len__(self) -> int:
        return len(self._spent)

    def _rebase(self) -> None:
        low = min(self._spent.values())
        # With one lone key there is no difference to keep: it starts anew.
        base = low if low > 0 else RESET_AT
        for key in self._spent:
            self._spent[key] = max(0.0, self._spent[key] - base)
