"""Secrets: where a request carries one, and how two are compared."""

import base64
import hmac
from collections.abc import Mapping, Sequence

from blazar_routing.errors import KeyMissing, KeysConflict


def same_hash(one: str, other: str) -> bool:
    """Return whether two hashes are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(one, other)


def carried_secret(headers: Mapping[str, str], *, every: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the secret that a request carries.

    It may stand in ``Authorization`` (``Bearer`` in any case, or as the password of ``Basic``) or in ``x-api-key``,
    never in the query, where logs would keep it. The same secret in both is fine.

    Args:
        headers: The request's headers; names are looked up as written here, so pass a case-insensitive mapping.
        every: All values of a header that came more than once, where the caller has them.

    Raises:
        KeyMissing: There is none.
        KeysConflict: There are two different ones.
    """
    authorizations: Sequence[str] = (every or {}).get("Authorization") or _one(headers, "Authorization")
    api_keys: Sequence[str] = (every or {}).get("x-api-key") or _one(headers, "x-api-key")
    if len(authorizations) == 1 and not api_keys and (secret := _bearer(authorizations[0])):
        return secret
    found = {_bearer(value) for value in authorizations} | {_bearer(value) for value in api_keys}
    found.discard("")
    if not found:
        raise KeyMissing
    if len(found) > 1:
        raise KeysConflict
    return found.pop()


def _one(headers: Mapping[str, str], name: str) -> tuple[str, ...]:
    value = headers.get(name)
    return () if value is None else (value,)


def _bearer(value: str) -> str:
    scheme, _, rest = value.strip().partition(" ")
    match scheme.lower():
        case "bearer":
            return rest.strip()
        case "basic" if rest:
            return _password(rest.strip())
        case _:
            return value.strip()


def _password(credentials: str) -> str:
    """Return the password in what a browser sends after it has asked its user; the name does not matter."""
    try:
        return base64.b64decode(credentials, validate=True).decode().partition(":")[2]
    except ValueError:
        return credentials
