"""Arguments that people add themselves (``extra_args``), checked against the build before anything starts."""

import re
from collections.abc import Iterable, Iterator, Sequence

from blazar_store.settings_values import sampler_chain
from blazar_supervisor.engines.manifest import Flag, Manifest

_NUMBER = re.compile(r"-\d")

OWNED: dict[str, str] = {
    "--host": "Blazar chooses where its engines listen",
    "--port": "Blazar chooses where its engines listen",
    "--reuse-port": "Blazar chooses where its engines listen",
    "--api-prefix": "Blazar talks to the engine's own paths",
    "--ssl-key-file": "Blazar talks to its engines on this machine in the clear",
    "--ssl-cert-file": "Blazar talks to its engines on this machine in the clear",
    "--model": "the model row names the file",
    "--model-url": "the model row names the file; `blazar pull` fetches one",
    "--hf-repo": "the model row names the file; `blazar pull` fetches one",
    "--hf-file": "the model row names the file; `blazar pull` fetches one",
    "--spec-draft-hf": "`spec_draft_model` names the file; `blazar pull` fetches one",
    "--mmproj-url": "the model row names the projector; `blazar pull` fetches one",
    "--hf-token": "an engine fetches nothing",
    "--docker-repo": "the model row names the file; `blazar pull` fetches one",
    "--models-dir": "without one model of its own the engine becomes a router",
    "--models-preset": "without one model of its own the engine becomes a router",
    "--models-max": "without one model of its own the engine becomes a router",
    "--models-autoload": "without one model of its own the engine becomes a router",
    "--api-key": "each engine gets a secret of its own",
    "--api-key-file": "each engine gets a secret of its own",
    "--alias": "the engine answers under the row's name",
    "--slot-save-path": "Blazar keeps saved sessions itself",
    "--ctx-size": "set `ctx` instead, so that memory is checked",
    "--parallel": "set `slots` instead, so that requests are admitted accordingly",
    "--kv-unified": "the slots share one pool of context",
    "--sleep-idle-seconds": "set `idle_sleep_secs` instead",
    "--cache-ram": "set `cache_ram_mb` instead, so that the cap holds",
    "--metrics": "it is always on",
    "--slots": "it is always on",
    "--ui": "the engine's own page would not know Blazar's keys",
    "--log-verbosity": "the memory figures are read at 4, and at 5 prompts would reach the log",
    "--verbose": "prompts would reach the log",
    "--log-disable": "Blazar reads the engine's log",
    "--log-colors": "Blazar reads the engine's log",
    "--log-file": "Blazar keeps the engine's log: `blazar logs`",
    "--log-prompts-dir": "prompts would reach the disk",
    "--log-prefix": "Blazar reads the engine's log",
    "--log-timestamps": "Blazar reads the engine's log",
    "--log-jsonl": "Blazar reads the engine's log",
    "--help": "it only prints a text",
    "--version": "it only prints a text",
    "--cache-list": "it only prints a text",
    "--list-devices": "it only prints a text",
    "--completion-bash": "it only prints a text",
}
"""Flags that Blazar sets or forbids, by their longest-standing spelling, and why."""


class BadArgument(Exception):
    """An extra argument that cannot be used; the text is the reason."""


def check_extra_args(words: Sequence[str], manifest: Manifest, *, engine: str) -> tuple[tuple[str, ...], ...]:
    """Return ``words`` grouped into flags with their values, in the spelling that the engine takes.

    ``--flag=value`` is split, since llama.cpp takes a space only; underscores are folded to dashes.

    Raises:
        BadArgument: An unknown, removed or owned flag, a missing value, or a value without a flag.
    """
    return tuple(_groups(list(_split(words, manifest)), manifest, engine))


def spellings_used(groups: Iterable[Sequence[str]], manifest: Manifest) -> set[str]:
    """Return every spelling of every flag in ``groups``: what Blazar's own arguments must leave alone."""
    used: set[str] = set()
    for group in groups:
        flag = manifest.find(group[0])
        used.update(flag.spellings if flag else group[:1])
    return used


def _split(words: Sequence[str], manifest: Manifest) -> Iterator[str]:
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.startswith("--") and manifest.find(name) is not None:
            yield name
            yield value
        else:
            yield word


def _groups(words: list[str], manifest: Manifest, engine: str) -> Iterator[tuple[str, ...]]:
    while words:
        word = words.pop(0)
        if not word.startswith("-") or _NUMBER.match(word):
            raise BadArgument(f"extra_args has the value '{word}' without a flag before it")
        flag = _known(word, manifest, engine)
        if len(words) < flag.values:
            raise BadArgument(f"'{word}' in extra_args needs a value ({flag.placeholder}) and has none")
        values, words[:] = words[: flag.values], words[flag.values :]
        yield (manifest.fold(word), *_checked(word, values))


def _checked(word: str, values: Sequence[str]) -> Iterable[str]:
    """Return the values, those of a chain of samplers by names that no build drops."""
    if word != "--samplers":
        return values
    try:
        return (";".join(sampler_chain(values[0])),)
    except ValueError as error:
        raise BadArgument(f"'--samplers' in extra_args takes {error}") from error


def _known(word: str, manifest: Manifest, engine: str) -> Flag:
    if removed := manifest.find_removed(word):
        raise BadArgument(f"the engine '{engine}' has removed '{word}': {removed.text}")
    flag = manifest.find(word)
    if flag is None:
        near = manifest.nearest(word)
        hint = f"; the nearest it has is '{near}'" if near else ""
        raise BadArgument(f"the engine '{engine}' has no flag '{word}'{hint}")
    if "download weights" in flag.text:
        raise BadArgument(f"'{word}' cannot stand in extra_args: {OWNED['--model-url']}")
    for spelling in flag.spellings:
        if why := OWNED.get(spelling):
            raise BadArgument(f"'{word}' cannot stand in extra_args: {why}")
    return flag
