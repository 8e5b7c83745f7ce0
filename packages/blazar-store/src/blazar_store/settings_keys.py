"""The ``[[keys]]`` of ``config.toml``: who may use the gateway, and how much.

A secret never shows: not in errors, not in ``repr``, not in what is written as JSON.
"""

import re
from datetime import UTC, date, datetime, time
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    Strict,
    StringConstraints,
    model_validator,
)

from blazar_store.key_secrets import hash_secret

MOST = 2**53 - 1
"""The largest limit: what JSON numbers hold exactly."""
HEAVIEST = 1_000_000
"""The largest weight."""

_SECRET_CHARS = re.compile(r"[\x21-\x7e]{8,512}")


def _name(value: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9._-]{1,128}", value):
        return value
    raise ValueError("1 to 128 of the characters A-Z, a-z, 0-9, dot, underscore and hyphen")


def _secret(value: SecretStr) -> SecretStr:
    if _SECRET_CHARS.fullmatch(value.get_secret_value()):
        return value
    raise ValueError("8 to 512 printable ASCII characters without spaces, as they travel in a header")


def _hash(value: str) -> str:
    if re.fullmatch(r"[0-9a-f]{64}", value):
        return value
    raise ValueError("the 64 hex digits of a SHA-256, as `blazar keys add` writes them")


def _moment(value: object) -> object:
    """Take TOML's dates and times, and their text in JSON; without an offset they are UTC, a day is its start."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise ValueError("a date or time such as 2027-01-31 or 2027-01-31T12:00:00Z") from error
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    raise ValueError("a date or time such as 2027-01-31 or 2027-01-31T12:00:00Z")


KeyName = Annotated[str, AfterValidator(_name)]
Secret = Annotated[SecretStr, AfterValidator(_secret)]
SecretHash = Annotated[str, AfterValidator(_hash)]
ModelNames = Annotated[tuple[Annotated[str, StringConstraints(min_length=1)], ...], Strict(strict=False)]
Moment = Annotated[datetime, BeforeValidator(_moment)]


class KeyEntry(BaseModel):
    """One API key; without ``models`` it may use all of them, and manage."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: KeyName = Field(examples=["alice"], description="What the key is called in usage, logs and commands.")
    key: Secret | None = Field(
        default=None,
        examples=["write-a-long-secret-here"],
        description="The secret itself, when written by hand; `blazar migrate` replaces it by its hash.",
    )
    hash: SecretHash | None = Field(
        default=None, examples=["0" * 64], description="The SHA-256 of the secret, as `blazar keys add` writes it."
    )
    models: ModelNames = Field(
        default=(),
        description="The models it may use, by name or alias; empty means all of them, and the right to manage.",
    )
    rpm: int | None = Field(default=None, examples=[60], ge=0, le=MOST, description="Requests per minute.")
    tpm: int | None = Field(default=None, examples=[100_000], ge=0, le=MOST, description="Tokens per minute.")
    daily_tokens: int | None = Field(
        default=None, examples=[1_000_000], ge=0, le=MOST, description="Tokens per day; days are UTC."
    )
    max_concurrent: int | None = Field(
        default=None, examples=[4], ge=0, le=MOST, description="Requests at once; an answer counts until its last byte."
    )
    weight: int = Field(default=1, ge=1, le=HEAVIEST, description="Its share when many wait, relative to other keys.")
    max_priority: Literal["high", "normal", "low"] = Field(
        default="high", description="The highest admission class it may ask for."
    )
    expires: Moment | None = Field(
        default=None,
        examples=["2099-12-31T00:00:00Z"],
        description="When it stops to work, a date or time; UTC unless it says otherwise.",
    )

    @model_validator(mode="after")
    def _one_secret(self) -> "KeyEntry":
        if (self.key is None) == (self.hash is None):
            raise ValueError("an entry with either `key` (the secret) or `hash` (its SHA-256)")
        return self

    @property
    def secret_hash(self) -> str:
        """The hash of its secret, whichever form was written."""
        return self.hash if self.key is None else hash_secret(self.key.get_secret_value())  # type: ignore[return-value]  # one of the two is set, as checked


def each_once(keys: tuple[KeyEntry, ...]) -> tuple[KeyEntry, ...]:
    """Return the keys as they are.

    Raises:
        ValueError: Two have the same name or the same secret.
    """
    names: set[str] = set()
    hashes: dict[str, str] = {}
    for entry in keys:
        if entry.name in names:
            raise ValueError(f"entries with names of their own; '{entry.name}' comes twice")
        names.add(entry.name)
        other = hashes.setdefault(entry.secret_hash, entry.name)
        if other != entry.name:
            raise ValueError(f"entries with secrets of their own; '{other}' and '{entry.name}' have the same one")
    return keys
