"""The keys, what they have used, and the gates that a request passes."""

import time
from collections.abc import Callable, Iterable

from blazar_gateway.access.keyring import Key, Keyring
from blazar_gateway.access.ledger import Ledger
from blazar_gateway.access.quotas import Quotas, utc_day


class Admission:
    """One for the whole daemon: its public and its control side count together.

    Attributes:
        keyring: The keys that hold now. An empty ring means that the gateway is open.
        quotas: What they have used of their limits.
        ledger: What they have used at all.
        now: Gives unix seconds.
    """

    def __init__(self, keys: Iterable[Key] = (), *, now: Callable[[], float] = time.time) -> None:
        self.keyring = Keyring(keys)
        self.quotas = Quotas()
        self.ledger = Ledger()
        self.now = now

    def replace_keys(self, keys: Iterable[Key]) -> None:
        """Let other keys hold from now on; requests that run keep what they were admitted with."""
        self.keyring = Keyring(keys)
        self.tidy()

    def tidy(self) -> None:
        """Drop what is remembered of keys that are gone and whose requests have ended."""
        names = frozenset(key.name for key in self.keyring.keys)
        self.quotas.forget_others(names)
        self.ledger.forget_totals(names)

    def admit(self, key: Key | None, model: str) -> None:
        """Count a request for a model, if the key's minute and day allow it.

        Raises:
            RateLimited: The key's requests or tokens of the minute are used up.
            DailyQuotaSpent: Its tokens of the day are.
        """
        now = self.now()
        if key is not None:
            self.quotas.charge_request(key, now=now)
        self.ledger.add_request("" if key is None else key.name, model, now=now)

    def charge(self, key: Key | None, model: str, *, prompt: int, completion: int) -> None:
        """Count tokens that an engine evaluated or generated."""
        now = self.now()
        if key is not None:
            self.quotas.charge_tokens(key, prompt + completion, now=now)
        self.ledger.add_tokens("" if key is None else key.name, model, prompt=prompt, completion=completion, now=now)

    def restore_today(self) -> None:
        """Charge the keys with what the ledger was given of today."""
        now = self.now()
        self.quotas.restore_day(self.ledger.tokens_by_key(utc_day(now)), now=now)
