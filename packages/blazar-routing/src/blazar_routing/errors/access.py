"""Refusals about who asks: no key, a wrong one, one that may not, one that has used up its share."""

from blazar_routing.errors.base import LaneError, quoted_list
from blazar_routing.errors.shell import in_shell


class KeyMissing(LaneError):
    """The gateway has keys, and the request carries none."""

    code = "key-missing"

    def __init__(self) -> None:
        super().__init__(
            "this server needs an API key: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`. "
            "Its owner makes one with `blazar keys add NAME`."
        )


class KeyInvalid(LaneError):
    """The secret belongs to no key, or to one that has expired."""

    code = "key-invalid"

    def __init__(self, *, expired: str | None = None) -> None:
        self.expired = expired
        why = f"the API key '{expired}' has expired" if expired else "the API key is not known to this server"
        super().__init__(f"{why}. Its owner makes a new one with `blazar keys add NAME` or `blazar keys rotate NAME`.")


class KeysConflict(LaneError):
    """Two different secrets in one request."""

    code = "keys-conflict"

    def __init__(self) -> None:
        super().__init__(
            "`Authorization` and `x-api-key` carry different keys. Send one of them, or the same key in both."
        )


class ModelNotAllowed(LaneError):
    """The key is scoped to other models."""

    code = "model-not-allowed"

    def __init__(self, *, key: str, model: str, models: tuple[str, ...]) -> None:
        self.key = key
        self.model = model
        self.models = models
        super().__init__(f"the API key '{key}' may not use model '{model}': it is for {quoted_list(models)}.")


class TooManyConcurrent(LaneError):
    """All of the key's concurrent requests are in use; an answer counts until its last byte has left."""

    code = "too-many-concurrent"
    retry_after_s = 1

    def __init__(self, *, key: str, limit: int) -> None:
        self.key = key
        self.limit = limit
        super().__init__(
            f"the API key '{key}' has {limit} requests running, the most it may have at once (max_concurrent). "
            "Wait until one has finished, or end one."
        )


class RateLimited(LaneError):
    """The key has used up its minute.

    Attributes:
        unit: ``requests`` or ``tokens``.
    """

    code = "rate-limited"

    def __init__(self, *, key: str, unit: str, limit: int, retry_after_s: int) -> None:
        self.key = key
        self.unit = unit
        self.limit = limit
        self.retry_after_s = retry_after_s
        setting = "rpm" if unit == "requests" else "tpm"
        super().__init__(
            f"the API key '{key}' has used its {limit} {unit} per minute ({setting}). Try again in {retry_after_s} s."
        )


class DailyQuotaSpent(LaneError):
    """The key has used up its day; days are UTC."""

    code = "daily-quota-spent"

    def __init__(self, *, key: str, limit: int, retry_after_s: int) -> None:
        self.key = key
        self.limit = limit
        self.retry_after_s = retry_after_s
        super().__init__(
            f"the API key '{key}' has used its {limit} tokens for today (daily_tokens). "
            "The next day begins at 00:00 UTC."
        )


class ManagementClosed(LaneError):
    """Keys cannot be managed over the network on a gateway that has none."""

    code = "management-closed"

    def __init__(self) -> None:
        super().__init__(
            "no keys configured: add the first [[keys]] entry in config.toml (or BLAZAR_KEYS env) and restart"
        )


class LastKey(LaneError):
    """Removing the last key would open the gateway to everybody."""

    code = "last-key"

    def __init__(self, *, name: str) -> None:
        self.name = name
        super().__init__(
            f"'{name}' is the last key; removing it would leave the gateway authless. "
            "Add another first with `blazar keys add NAME`."
        )


class KeyNameTaken(LaneError):
    """There is a key of that name."""

    code = "key-name-taken"

    def __init__(self, *, name: str) -> None:
        self.name = name
        super().__init__(
            f"there is a key named '{name}' already. Choose another name, or give that key a new secret with "
            f"`blazar keys rotate {in_shell(name)}`."
        )


class NoSuchKey(LaneError):
    """There is no key of that name."""

    code = "no-such-key"

    def __init__(self, *, name: str) -> None:
        self.name = name
        super().__init__(f"there is no key named '{name}'. `blazar keys list` shows those there are.")


class KeyMalformed(LaneError):
    """A name or limit that a key cannot have."""

    code = "key-malformed"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
