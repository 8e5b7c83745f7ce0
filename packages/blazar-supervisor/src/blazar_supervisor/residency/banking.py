"""Saving what an engine has read of conversations when it is evicted, and giving it back at the next load.

Only on eviction (to make room, or for being idle), of slots that nobody uses, of an engine that is awake, and within
two seconds: whatever has not been saved by then is read anew from its prompt. Giving back is a matter of the load, is
bounded likewise, and can only ever cost the bank, never the load.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from blazar_store.errors import StoreError
from blazar_supervisor.engines.adapter import SlotState
from blazar_supervisor.engines.profile import Profile
from blazar_supervisor.residency.banks import BankShelf, Mark, SavedSlot, mark_of, part_name

SAVE_S = 2.0
"""Seconds for saving all slots of a child."""

RESTORE_S = 2.0
"""Seconds for reading them, and again for giving them back."""

_DEATH_NOTICE_S = 2.0

_log = logging.getLogger(__name__)


class Banked(Protocol):
    """What banking needs of a child."""

    @property
    def exited(self) -> asyncio.Event: ...
    async def asks_sleeping(self) -> bool | None: ...
    async def slots(self) -> tuple[SlotState, ...] | None:
        """Return its slots. Wakes a sleeper."""

    async def save_slot(self, slot: int, file: str, *, timeout_s: float) -> int | None:
        """Have it write a slot and return the tokens it held, or ``None`` if it did not."""

    async def restore_slot(self, slot: int, file: str, *, timeout_s: float) -> bool | None:
        """Have it read a slot and return whether it did; ``None`` when no answer came."""


@dataclass(frozen=True, slots=True)
class Written:
    """What an engine wrote before it ended.

    Attributes:
        mark: What it is of.
        slots: Slot numbers and their tokens.
        unused: Slots that nobody has used since they were given back: what was saved of them holds.
    """

    mark: Mark
    slots: tuple[tuple[int, int], ...]
    unused: frozenset[int]


class Banking:
    """Saves and gives back, over one shelf."""

    def __init__(self, shelf: BankShelf) -> None:
        self._shelf = shelf
        self._given_back: dict[str, tuple[SavedSlot, ...]] = {}
        self._killed: set[str] = set()

    async def restore(self, key: str, profile: Profile, child: Banked) -> bool:
        """Give a child that has just come up what was saved of its last life.

        Returns:
            Whether it is alive. If not, the bank has killed it and is gone: started anew, it comes up without.
        """
        self._given_back.pop(key, None)
        if not profile.banks or key in self._killed:
            return True
        try:
            async with asyncio.timeout(RESTORE_S):
                mark, saved = await asyncio.to_thread(self._open, key, profile)
        except TimeoutError:
            _log.info("what was saved of %s is not given back: it takes too long to read", key)
            return True
        except (OSError, StoreError) as error:
            _log.warning("what was saved of %s cannot be read: %s", key, error)
            return True
        given: list[SavedSlot] = []
        alive = True
        try:
            async with asyncio.timeout(RESTORE_S):
                for one in saved:
                    took = await child.restore_slot(one.slot, one.file, timeout_s=RESTORE_S)
                    if took:
                        given.append(one)
                    elif took is None:
                        alive = not await _ends(child)
                        break
        except TimeoutError:
            _log.info("%s was given back %d of %d slots in time", key, len(given), len(saved))
        if not alive:
            _log.warning("%s died of what was saved of it; it is started without", key)
            given.clear()
            # Whether or not its files can be removed: it is not tried again until something new has been saved.
            self._killed.add(key)
        if saved and not given:
            await asyncio.to_thread(self._shelf.drop, key, mark)
        if given:
            tokens = sum(one.tokens for one in given)
            _log.info("%s remembers %d tokens of its last life, in %d slots", key, tokens, len(given))
            self._given_back[key] = tuple(given)
        return alive

    async def save(self, key: str, profile: Profile, child: Banked) -> Written | None:
        """Have a child that is about to end write its idle slots; :meth:`keep` files them once it has ended."""
        if not profile.banks:
            return None
        written: list[tuple[int, int]] = []
        unused: set[int] = set()
        mark: Mark | None = None
        try:
            async with asyncio.timeout(SAVE_S):
                # A sleeper has forgotten everything, and asking for its slots would make it load again.
                if await child.asks_sleeping() is not False:
                    return None
                mark = await asyncio.to_thread(mark_of, profile)
                slots = await child.slots()
                if slots is None:
                    return None
                for slot in sorted(slots, key=lambda slot: -slot.task):
                    if not slot.used:
                        unused.add(slot.number)
                    elif not slot.busy:
                        tokens = await child.save_slot(slot.number, part_name(mark, slot.number), timeout_s=SAVE_S)
                        if tokens is not None:
                            written.append((slot.number, tokens))
        except TimeoutError:
            _log.info("%s: %d slots were saved in time", key, len(written))
        except OSError as error:
            _log.info("%s is not saved: %s", key, error)
            return None
        return None if mark is None else Written(mark, tuple(written), frozenset(unused))

    async def keep(self, key: str, written: Written) -> None:
        """File what a child wrote, now that it has ended."""
        self._killed.discard(key)
        kept = [one for one in self._given_back.pop(key, ()) if one.slot in written.unused]
        try:
            count = await asyncio.to_thread(self._shelf.put, key, written.mark, written.slots, kept=kept)
        except (OSError, StoreError) as error:
            _log.warning("what %s had read is not kept: %s", key, error)
            await asyncio.to_thread(self._shelf.drop, key, written.mark)
            return
        if count:
            _log.info("%s: what it had read is kept, in %d slots", key, count)

    def _open(self, key: str, profile: Profile) -> tuple[Mark, tuple[SavedSlot, ...]]:
        mark = mark_of(profile)
        return mark, self._shelf.open(key, mark)


async def _ends(child: Banked) -> bool:
    """Return whether a child that gave no answer is ending."""
    try:
        async with asyncio.timeout(_DEATH_NOTICE_S):
            await child.exited.wait()
    except TimeoutError:
        return False
    return True
