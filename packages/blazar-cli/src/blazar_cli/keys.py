"""The keys of this machine: those of ``config.toml``, which can be changed here, and those of ``BLAZAR_KEYS``."""

from collections.abc import Mapping
from pathlib import Path

import tomlkit
from pydantic import ValidationError

from blazar_routing.errors import KeyMalformed, KeyNameTaken, LastKey, NoSuchKey
from blazar_store.config_file import ConfigFile
from blazar_store.env_keys import VARIABLE
from blazar_store.key_entries import append_key, names, remove_key, set_hash
from blazar_store.key_secrets import hash_secret, new_secret
from blazar_store.settings_fields import Settings
from blazar_store.settings_files import load_settings
from blazar_store.settings_keys import KeyEntry


def keys_in_force(settings: Settings, env_keys: tuple[KeyEntry, ...]) -> tuple[KeyEntry, ...]:
    """Return the keys of the environment, then those of the file whose names are not among them."""
    taken = {entry.name for entry in env_keys}
    return (*env_keys, *(entry for entry in settings.keys if entry.name not in taken))


class KeyFile:
    """Keys that can be changed. Every method blocks; two programs that change at once take turns.

    Args:
        config_file: It need not exist.
        env_keys: What ``BLAZAR_KEYS`` says; those keys cannot be changed here.
    """

    def __init__(self, config_file: Path, env_keys: tuple[KeyEntry, ...]) -> None:
        self._file = ConfigFile(config_file)
        self._env_keys = env_keys
        self._env_names = frozenset(entry.name for entry in env_keys)

    def entries(self) -> tuple[KeyEntry, ...]:
        """Return every key.

        Raises:
            ConfigInvalid: The file cannot be used.
        """
        return keys_in_force(load_settings(self._file.path), self._env_keys)

    def add(self, fields: Mapping[str, object]) -> str:
        """Make a key and return its secret, of which only the hash is kept.

        Args:
            fields: As in ``[[keys]]``, without ``key`` and ``hash``; ``None`` is left out.

        Raises:
            KeyMalformed: A field cannot be so.
            KeyNameTaken: There is a key of that name.
            StoreError: The file cannot be used or written.
        """
        secret = new_secret()
        whole = {**{name: value for name, value in fields.items() if value is not None}, "hash": hash_secret(secret)}
        _check(whole)
        name = str(whole["name"])

        def change(document: tomlkit.TOMLDocument) -> None:
            if name in self._env_names or name in names(document):
                raise KeyNameTaken(name=name)
            append_key(document, whole)

        self._file.edit(change)
        return secret

    def remove(self, name: str) -> None:
        """Remove a key.

        Raises:
            NoSuchKey: There is none of that name.
            LastKey: It is the only one.
            KeyMalformed: It comes from the environment.
            StoreError: The file cannot be used or written.
        """

        def change(document: tomlkit.TOMLDocument) -> None:
            self._require(name, document)
            if len(self._env_names | set(names(document))) == 1:
                raise LastKey(name=name)
            remove_key(document, name)

        self._file.edit(change)

    def rotate(self, name: str) -> str:
        """Give a key another secret and return it.

        Raises:
            NoSuchKey: There is none of that name.
            KeyMalformed: It comes from the environment.
            StoreError: The file cannot be used or written.
        """
        secret = new_secret()

        def change(document: tomlkit.TOMLDocument) -> None:
            self._require(name, document)
            set_hash(document, name, hash_secret(secret))

        self._file.edit(change)
        return secret

    def _require(self, name: str, document: tomlkit.TOMLDocument) -> None:
        if name in self._env_names:
            raise KeyMalformed(f"the key '{name}' comes from {VARIABLE}: change it there, and start the daemon again.")
        if name not in names(document):
            raise NoSuchKey(name=name)


def _check(fields: Mapping[str, object]) -> None:
    try:
        KeyEntry.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        field = str(fault["loc"][0]) if fault["loc"] else "key"
        own = fault.get("ctx", {}).get("error")
        what = f"must be {own}" if own is not None else f"cannot be used: {fault['msg'].lower()}"
        raise KeyMalformed(f"`{field}` {what}.") from None
