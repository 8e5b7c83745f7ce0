"""What went wrong on the network, in words of people. Pure."""

import errno
import os
import re
from socket import gaierror

from aiohttp import ClientConnectorError

_NO_SUCH_NAME = ("Name or service not known", "nodename nor servname", "Temporary failure in name resolution")
_NUMBER = re.compile(r"\[Errno -?\d+\]\s*")


def reason_of(error: BaseException) -> str:
    """Return what an error of the network means: one clause, without numbers of the system."""
    if isinstance(error, TimeoutError):
        return "the server went silent"
    if isinstance(error, ClientConnectorError):
        return f"{error.host}: {_system_words(error.os_error)}"
    if isinstance(error, OSError):
        return _system_words(error)
    return _plain(str(error)) or type(error).__name__


def _system_words(error: OSError) -> str:
    if isinstance(error, gaierror):
        return "the name is not known"
    if error.errno is not None and error.errno in errno.errorcode:
        # The loop's own texts repeat the address; the system's say what happened.
        words = os.strerror(error.errno)
        return f"{words[0].lower()}{words[1:]}"
    return _plain(str(error)) or type(error).__name__


def _plain(text: str) -> str:
    first = next(iter(_NUMBER.sub("", text).strip().splitlines()), "").rstrip(".")
    return "the name is not known" if any(words in first for words in _NO_SUCH_NAME) else first
