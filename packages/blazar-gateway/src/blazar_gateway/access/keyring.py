"""The keys there are, and which of them a secret opens."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from blazar_gateway.access.secrets import same_hash
from blazar_routing.errors import KeyInvalid, KeyMalformed, ModelNotAllowed
from blazar_routing.ticket import Priority
from blazar_store.key_secrets import hash_secret
from blazar_store.settings_keys import HEAVIEST, MOST

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
_LIMITS = ("rpm", "tpm", "daily_tokens", "max_concurrent", "weight")


@dataclass(frozen=True, slots=True)
class Key:
    """A key, without its secret.

    Attributes:
        name: Unique.
        hash: Of its secret.
        models: The rows it may use; empty means all of them, and the right to manage.
        rpm: Requests per minute, or ``None`` for no limit.
        tpm: Tokens per minute, or ``None``.
        daily_tokens: Tokens per UTC day, or ``None``.
        max_concurrent: Requests at once, or ``None``.
        weight: Its share under contention, at least 1.
        max_priority: The highest class it may ask for.
        expires_at: Unix seconds from which it opens nothing, or ``None``.
    """

    name: str
    hash: str
    models: tuple[str, ...] = ()
    rpm: int | None = None
    tpm: int | None = None
    daily_tokens: int | None = None
    max_concurrent: int | None = None
    weight: int = 1
    max_priority: Priority = Priority.HIGH
    expires_at: float | None = None

    @property
    def is_admin(self) -> bool:
        """Whether it may manage keys and models: it is scoped to nothing."""
        return not self.models

    def may_use(self, model: str, aliases: Sequence[str] = ()) -> bool:
        """Return whether the row is in its scope, by its name or one of its aliases."""
        return not self.models or any(name in self.models for name in (model, *aliases))

    def check_model(self, model: str, aliases: Sequence[str] = ()) -> None:
        """Do nothing if the key may use the row.

        Args:
            model: The row's name.
            aliases: Its further names.

        Raises:
            ModelNotAllowed: It may not.
        """
        if not self.may_use(model, aliases):
            raise ModelNotAllowed(key=self.name, model=model, models=self.models)


class Keyring:
    """All keys. An empty ring means that the gateway is open."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.keys = tuple(keys)
        self._by_hash = {key.hash: key for key in self.keys}

    def __bool__(self) -> bool:
        return bool(self.keys)

    def find(self, secret: str, *, now: float) -> Key:
        """Return the key that a secret opens.

        Args:
            secret: As the client sent it.
            now: Unix seconds.

        Raises:
            KeyInvalid: None, or one that has expired.
        """
        hashed = hash_secret(secret)
        # The table is keyed by a hash that nobody can steer, so the look-up tells nothing; the comparison that
        # decides is constant-time all the same.
        key = self._by_hash.get(hashed)
        if key is None or not same_hash(key.hash, hashed):
            raise KeyInvalid
        if key.expires_at is not None and now >= key.expires_at:
            raise KeyInvalid(expired=key.name)
        return key

    def named(self, name: str) -> Key | None:
        """Return the key of that name, or ``None``."""
        return next((key for key in self.keys if key.name == name), None)


def check_name(name: object) -> str:
    """Return a key's name as it is.

    Raises:
        KeyMalformed: It is none.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise KeyMalformed(
            f"{name!r} cannot be a key's name: use 1 to 128 of the characters A-Z, a-z, 0-9, dot, underscore and hyphen"
        )
    return name


def check_limits(limits: dict[str, object]) -> dict[str, int]:
    """Return the numeric limits among ``limits``, checked; ``None`` values are left out.

    Raises:
        KeyMalformed: One is not a whole number of at least 0 (of at least 1 for ``weight``), or is more than the
            settings take.
    """
    checked: dict[str, int] = {}
    for name in _LIMITS:
        value = limits.get(name)
        if value is None:
            continue
        least = 1 if name == "weight" else 0
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            what = "an integer of at least 1" if least else "a non-negative integer"
            raise KeyMalformed(f"`{name}` must be {what}, not {value!r}")
        most = HEAVIEST if name == "weight" else MOST
        if value > most:
            # The configuration that keeps it would not be read again.
            raise KeyMalformed(f"`{name}` must be {most} or less, not {value!r}")
        checked[name] = value
    return checked
