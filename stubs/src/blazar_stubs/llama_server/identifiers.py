"""Random identifiers, as upstream makes them: 32 letters and digits after a prefix."""

import os

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def random_word(length: int = 32) -> str:
    """That many letters and digits (the module `random` takes longer to import than the stub to start)."""
    return "".join(_LETTERS[byte % len(_LETTERS)] for byte in os.urandom(length))
