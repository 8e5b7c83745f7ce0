"""What somebody may write after ``blazar pull``. Pure."""

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_HUB_HOSTS = frozenset({"hf.co", "huggingface.co", "www.huggingface.co"})
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")


class MalformedReference(ValueError):
    """The text names nothing that could be pulled; ``str()`` says what would."""


@dataclass(frozen=True, slots=True)
class HubReference:
    """A repository of the hub, perhaps with a choice within it.

    Attributes:
        repository: ``owner/name``.
        choice: What came after the colon: a quant label or a file name; ``None`` when nothing did.
        revision: A branch, tag or commit after ``@``; ``main`` when not said.
    """

    repository: str
    choice: str | None = None
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class UrlReference:
    """A file at an address.

    Attributes:
        url: The address, https.
        file_name: Its last path segment, safe to use as a file name.
    """

    url: str
    file_name: str


@dataclass(frozen=True, slots=True)
class ShortName:
    """A name of the catalogue: ``gemma3:270m``."""

    name: str


Reference = HubReference | UrlReference | ShortName


def parse_reference(text: str) -> Reference:
    """Return what ``text`` refers to.

    Raises:
        MalformedReference: Nothing that could be pulled.
    """
    text = text.strip()
    if "://" in text:
        return _url(text)
    if "/" not in text:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)?", text):
            raise MalformedReference(_what_would(text))
        return ShortName(text.lower())
    host, _, rest = text.partition("/")
    return _hub(rest if host.lower() in _HUB_HOSTS else text, text)


def _hub(path: str, text: str) -> HubReference:
    path, _, choice = path.partition(":")
    path, _, revision = path.partition("@")
    segments = path.split("/")
    if len(segments) != 2 or not all(_SEGMENT.fullmatch(segment) and ".." not in segment for segment in segments):
        raise MalformedReference(_what_would(text))
    if revision and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise MalformedReference(_what_would(text))
    if ":" in choice or choice.startswith(("/", ".")) or ".." in choice:
        raise MalformedReference(_what_would(text))
    return HubReference(path, choice or None, revision or "main")


def _url(text: str) -> Reference:
    parts = urlsplit(text)
    if parts.scheme.lower() != "https" or not parts.hostname:
        raise MalformedReference(
            f"'{text}' cannot be pulled: only https addresses can. "
            "For a file on this machine use `blazar models add PATH`."
        )
    segments = [unquote(segment) for segment in parts.path.split("/") if segment]
    if parts.hostname.lower() in _HUB_HOSTS:
        return _hub_page(segments, text)
    file_name = segments[-1] if segments else ""
    if not file_name.lower().endswith(".gguf") or not re.fullmatch(r"[^/\\\x00-\x1f]{6,200}", file_name):
        raise MalformedReference(
            f"'{text}' cannot be pulled: a direct address must end in a file name with .gguf. "
            "For a repository of the hub write owner/name, for example `blazar pull unsloth/gemma-3-270m-it-GGUF`."
        )
    return UrlReference(text, file_name.lstrip("."))


def _hub_page(segments: list[str], text: str) -> HubReference:
    """Return the repository (and file) that a page of the hub shows."""
    if len(segments) >= 5 and segments[2] in {"blob", "resolve"}:
        return _hub(f"{segments[0]}/{segments[1]}@{segments[3]}:{'/'.join(segments[4:])}", text)
    if len(segments) == 4 and segments[2] == "tree":
        return _hub(f"{segments[0]}/{segments[1]}@{segments[3]}", text)
    return _hub("/".join(segments[:2]), text)


def _what_would(text: str) -> str:
    return (
        f"'{text}' names nothing that can be pulled: write owner/repository, owner/repository:QUANT, "
        "a short name from `blazar models search`, or an https address of a .gguf file."
    )
