"""Model names: which may be given, and which row a client's spelling means.

Pure functions. Giving a name is strict (:func:`check_model_name`), asking by name is lenient
(:func:`resolve_model_name`) but never invents a mapping: a spelling means an existing row or nothing.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property
from urllib.parse import unquote

from blazar_store.errors import NameReserved

MAX_NAME_CHARS = 512
"""Far above any real repository and file name; a bound keeps headers, logs and metrics sane."""

_MARKS = ("@vision", "@embed")
_LATEST = ":latest"
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_HUB_PREFIX = re.compile(r"^(?:https?://)?(?:hf\.co|huggingface\.co)/", re.IGNORECASE)


def check_model_name(name: str) -> None:
    """Check that ``name`` may be given to a model row.

    ``#`` separates a replica's number (``model#2``) and ``@vision`` and ``@embed`` mark companion instances, so
    none of them can be part of a name; nor can a comma, at which llama-server splits its alias. Slashes, colons,
    spaces inside, any script and any case are fine.

    Raises:
        NameReserved: It may not; the error says what stands in the way.
    """
    reason = _objection(name)
    if reason is not None:
        raise NameReserved(name=name, reason=reason)


def _objection(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_CHARS:
        return f"it has {len(name)} characters, and the limit is {MAX_NAME_CHARS}"
    if any(unicodedata.category(char) in _UNPRINTABLE for char in name):
        return "it contains control or invisible characters"
    if name != name.strip():
        return "it begins or ends with a space"
    if "#" in name:
        return "'#' is reserved for replicas (model#2)"
    folded = fold_name(name)
    for mark in _MARKS:
        if mark in folded:
            return f"'{mark}' is reserved for companion instances of a model"
    if "," in name:
        return "engines take ',' for the end of a name: use '-' instead"
    if "\\" in name:
        return "it contains a backslash"
    if any(part in {"", ".", ".."} for part in name.split("/")):
        return "the parts between its slashes may not be empty, '.' or '..'"
    return None


def fold_name(name: str) -> str:
    """Return the form in which two names are compared: Unicode-composed and without case.

    Names that fold to the same string cannot both exist, which also keeps their files apart on file systems that
    ignore case.
    """
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def form_of_name(name: str) -> str:
    """Return the form of which there may be one row: :func:`fold_name`, without ``:latest``.

    Ollama's clients say ``model`` and ``model:latest`` for one and the same, so that of two such rows one could not
    be asked.
    """
    return fold_name(name).removesuffix(_LATEST)


def resolve_model_name(name: str, names: Iterable[str]) -> str:
    """Return the row that a client's ``name`` means, or ``name`` itself, verbatim, when no row fits.

    In this order, each step only if that row exists:

    1. the name as it stands;
    2. without ``:latest``, or with it;
    3. ``model:tag`` as the row ``model-tag``;
    4. steps 1 to 3 without a leading ``hf.co/`` or ``huggingface.co/``;
    5. steps 1 to 4 after percent-decoding (a client that encoded a name twice);
    6. steps 1 to 5 without regard to case, if exactly one row fits.

    Args:
        name: As the client wrote it.
        names: The names of all rows.
    """
    return NameTable(names).resolve(name)


class NameTable:
    """The names of all rows, ready for many questions: a name that is asked for as it stands costs one look-up."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    @cached_property
    def _folded(self) -> dict[str, list[str]]:
        folded: dict[str, list[str]] = {}
        for row in self._names:
            folded.setdefault(fold_name(row), []).append(row)
        return folded

    def resolve(self, name: str) -> str:
        """Return what :func:`resolve_model_name` returns."""
        if name in self._names:
            return name
        candidates = list(dict.fromkeys(_spellings(name)))
        for candidate in candidates:
            if candidate in self._names:
                return candidate
        for candidate in candidates:
            rows = self._folded.get(fold_name(candidate), [])
            if len(rows) == 1:
                return rows[0]
        return name


def _spellings(name: str) -> Iterator[str]:
    """Yield what ``name`` may mean, the most literal first."""
    for text in dict.fromkeys((name, unquote(name, errors="strict") if _decodable(name) else name)):
        for form in dict.fromkeys((text, _HUB_PREFIX.sub("", text))):
            yield form
            stem, colon, tag = form.rpartition(":")
            if colon and "/" not in tag:
                if fold_name(tag) == "latest":
                    yield stem
                yield f"{stem}-{tag}"
            else:
                yield f"{form}:latest"


def _decodable(name: str) -> bool:
    try:
        unquote(name, errors="strict")
    except UnicodeDecodeError:
        return False
    return True


def near_names(name: str, names: Iterable[str], *, limit: int = 3) -> tuple[str, ...]:
    """Return up to ``limit`` of ``names`` that resemble ``name``, the most alike first."""
    wanted = fold_name(name)
    by_form: dict[str, str] = {}
    for row in names:
        by_form.setdefault(fold_name(row), row)
    close = difflib.get_close_matches(wanted, list(by_form), n=limit, cutoff=0.6)
    # difflib misses 'qwen' for 'qwen3-8b-instruct-q4_k_m': a part of a name is what people type.
    parts = sorted(form for form in by_form if len(wanted) >= 3 and wanted in form)
    return tuple(by_form[form] for form in dict.fromkeys((*close, *parts)))[:limit]
