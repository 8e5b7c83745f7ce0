"""https: the daemon's certificate and key, and what happens when they are renewed.

The listener has one context for ever, which hands each new connection to the context of the files of today; connections
that are open go on as they are. Files that cannot be used (half written, or not belonging together) change nothing.
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from blazar_cli.errors import TlsIncomplete, TlsUnusable
from blazar_store.settings_watch import FileStamp, file_stamp

PERIOD_S = 2.0
"""Seconds between looks at the files."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where certificate and key are."""

    cert: Path
    key: Path

    def stamps(self) -> tuple[FileStamp | None, FileStamp | None]:
        """Return what tells their present content from another."""
        return file_stamp(self.cert), file_stamp(self.key)


def choose_tls(
    *, cert_flag: str | None, key_flag: str | None, cert_setting: str | None, key_setting: str | None
) -> TlsFiles | None:
    """Return the files to serve https with, or ``None`` for http; flags go before the configuration.

    Raises:
        TlsIncomplete: There is one without the other.
    """
    cert, key = (cert_flag, key_flag) if cert_flag or key_flag else (cert_setting, key_setting)
    if not cert and not key:
        return None
    if not cert or not key:
        raise TlsIncomplete(given="--tls-cert" if cert else "--tls-key", missing="--tls-key" if cert else "--tls-cert")
    return TlsFiles(Path(cert).expanduser().absolute(), Path(key).expanduser().absolute())


class Tls:
    """What connections are greeted with.

    Args:
        files: Certificate and key.

    Attributes:
        context: For the listener.

    Raises:
        TlsUnusable: They cannot be read, or do not belong together.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamps = files.stamps()
        self._failure = ""
        self.context = self._current = _load(files)
        self.context.sni_callback = self._greet

    def _greet(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        """Greet a new connection with the certificate of today; also called for clients that name no host."""
        del name
        if context is not self._current:
            connection.context = self._current

    async def watch(self) -> None:
        """Take renewed files up, until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Take the files up if they are others than before. Reads files: not for the event loop."""
        stamps = self._files.stamps()
        if stamps == self._stamps:
            return
        try:
            self._current = _load(self._files)
        except TlsUnusable as error:
            # Not taken as seen: the other file of the two may follow, and time stamps are coarse.
            if str(error) != self._failure:
                self._failure = str(error)
                _log.warning("the renewed certificate is not used, the former one stays: %s", error)
            return
        self._stamps, self._failure = stamps, ""
        _log.info("certificate and key were renewed: %s", self._files.cert)


def _load(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # aiohttp speaks nothing else.
    context.set_alpn_protocols(["http/1.1"])
    try:
        # A key with a password would ask for it on the terminal, for ever.
        context.load_cert_chain(files.cert, files.key, password=lambda: b"")
    except (OSError, ValueError) as error:
        raise TlsUnusable(cert=files.cert, key=files.key, reason=_reason(error)) from error
    return context


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        match error.reason or "":
            case "KEY_VALUES_MISMATCH":
                return "the key is not that of the certificate"
            case "NO_START_LINE" | "PEM_LIB" | "":
                return "one of them is not PEM, or the key has a password"
            case reason:
                return reason.replace("_", " ").lower()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or "they cannot be read"
