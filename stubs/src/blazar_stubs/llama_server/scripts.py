"""Where a request's script comes from, and which one wins.

First a directive inside the prompt itself (``[[stub: {"text": "hi"}]]``), then what was pushed by a control call,
then the sidecar's list, which is read again whenever the file changes. Below all of them lie the sidecar's
``defaults``.
"""

import json
import os
from collections.abc import Mapping
from typing import Any

from blazar_stubs.llama_server.knobs import Json, KnobError, Knobs, Script, checked_knobs, checked_script

ENVIRONMENT = "BLAZAR_STUB"
"""A variable holding process knobs as JSON; for tests that start a stub themselves."""

_OPEN = "[[stub:"
_CLOSE = "]]"


def find_directive(value: Any) -> Script | None:
    """The last directive in any text of a decoded body, or None.

    Raises:
        KnobError: A directive is not JSON, or holds an unknown knob.
    """
    match value:
        case str() if _OPEN in value:
            rest = value[value.rindex(_OPEN) + len(_OPEN) :].lstrip()
            try:
                script, _ = json.JSONDecoder().raw_decode(rest)
            except ValueError as error:
                raise KnobError(f"stub: directive is not JSON ({error}): {rest[:200]}") from None
            return checked_script(script, "directive")
        case list():
            parts = value
        case dict():
            parts = list(value.values())
        case _:
            return None
    for part in reversed(parts):
        found = find_directive(part)
        if found is not None:
            return found
    return None


def without_directives(text: str) -> str:
    """A prompt's text as the model would be asked it, directives cut out."""
    while _OPEN in text:
        start = text.index(_OPEN)
        inner = text[start + len(_OPEN) :]
        lead = len(inner) - len(inner.lstrip())
        try:
            _, end = json.JSONDecoder().raw_decode(inner[lead:])
        except ValueError:
            return text
        rest = inner[lead + end :].lstrip()
        text = text[:start] + rest.removeprefix(_CLOSE)
    return text.strip()


class Playbook:
    """The knobs of this process, live, and the scripts that wait for requests."""

    def __init__(self, executable: str, model_path: str, environ: Mapping[str, str]) -> None:
        self._files = [path + ".stub.json" for path in (executable, model_path) if path]
        self._stamps: list[tuple[int, ...]] = []
        self._fixed: Knobs = {}
        given = environ.get(ENVIRONMENT)
        if given:
            self._fixed = checked_knobs(_decoded(given, ENVIRONMENT), ENVIRONMENT)
        self._pushed: list[Script] = []
        self._spent: dict[int, int] = {}
        self.knobs: Knobs = {}
        self.refresh()

    @property
    def is_scripted(self) -> bool:
        """Whether any test has left word for this process."""
        return bool(self._fixed) or any(self._stamps)

    def refresh(self) -> None:
        """Read changed sidecars again; the model's wins over the executable's, the environment over both."""
        stamps = [_stamp(path) for path in self._files]
        if stamps == self._stamps:
            return
        self._stamps = stamps
        self._spent = {}
        merged: Json = {}
        for path, stamp in zip(self._files, stamps, strict=True):
            if stamp:
                with open(path, encoding="utf-8") as file:  # noqa: PTH123 - importing pathlib doubles the start-up time
                    merged |= checked_knobs(_decoded(file.read(), path), path)
        self.knobs = checked_knobs(merged | dict(self._fixed), "merged knobs")

    def push(self, order: object) -> None:
        """Take a control call's body: one script, a list of them, or ``{"process": knobs}``.

        Raises:
            KnobError: It is none of these.
        """
        if isinstance(order, dict) and set(order) == {"process"}:
            changed = checked_knobs(order["process"], "control call")
            self._fixed = checked_knobs({**self._fixed, **changed}, "control call")
            self.knobs = checked_knobs({**self.knobs, **changed}, "control call")
            return
        for script in order if isinstance(order, list) else [order]:
            self._pushed.append(checked_script(script, "control call"))

    def reset(self) -> None:
        """Drop what was pushed and not yet used, and what control calls changed."""
        self._pushed = []
        self._fixed = {}
        self._stamps = []
        self.refresh()

    def take(self, path: str, body: bytes, *, generates: bool) -> Script:
        """The script for one request; used up according to its ``times`` (pushed ones: once, unless it says more)."""
        self.refresh()
        defaults = self.knobs.get("defaults", {}) if generates else {}
        found = self._directive(body) if generates else None
        if found is None:
            found = self._from_queue(path, body, generates=generates)
        if found is None:
            found = self._from_sidecar(path, body, generates=generates)
        return {**defaults, **(found or {})}

    def _directive(self, body: bytes) -> Script | None:
        if _OPEN.encode() not in body:
            return None
        try:
            return find_directive(json.loads(body))
        except ValueError:
            return None

    def _from_queue(self, path: str, body: bytes, *, generates: bool) -> Script | None:
        for index, script in enumerate(self._pushed):
            if _fits(script, path, body, generates=generates):
                left = script.get("times", 1) - 1
                if left:
                    self._pushed[index] = {**script, "times": left}
                else:
                    del self._pushed[index]
                return script
        return None

    def _from_sidecar(self, path: str, body: bytes, *, generates: bool) -> Script | None:
        for index, script in enumerate(self.knobs.get("requests", [])):
            if _fits(script, path, body, generates=generates):
                used = self._spent.get(index, 0)
                if used < script.get("times", used + 1):
                    self._spent[index] = used + 1
                    return script
        return None


def _fits(script: Script, path: str, body: bytes, *, generates: bool) -> bool:
    wanted = script.get("path")
    if wanted is None and not generates:
        return False
    if wanted is not None and wanted != path:
        return False
    return script.get("match", "").encode() in body


def _stamp(path: str) -> tuple[int, ...]:
    """What tells one version of a file from another, also within one tick of the clock; empty if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - importing pathlib doubles the start-up time
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ino, found.st_size)


def _decoded(text: str, source: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise KnobError(f"stub: {source} is not JSON: {error}") from None
