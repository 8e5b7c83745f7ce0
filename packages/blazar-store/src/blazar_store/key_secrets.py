"""Secrets of API keys: how a new one looks, and what is kept of it."""

import hashlib
import secrets

PREFIX = "plm_"
"""Every generated secret begins so, which lets scanners of leaked secrets find it."""


def new_secret() -> str:
    """Return a fresh secret of 256 bits from the operating system."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """Return what is stored of a secret: 64 hex digits.

    A plain hash is enough, and fast enough for every request: generated secrets are random, not chosen by people.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
