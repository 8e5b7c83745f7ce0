"""Overlays of rows: how they are kept, what they change of a load, and how two of them become one. Pure.

What an overlay changes of a request is the gateway's business (``blazar_gateway.row_defaults``).
"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from blazar_store.types import RowOverlay

_GO_ACTION = re.compile(r"\{\{-?\s*(?:\.|\$|/\*|(?:if|range|else|end|with|define|template|block|break|continue)\b)")
_JINJA_MARK = re.compile(r"\{%|\{\{-?\s*[A-Za-z_'\"(\[]")


@dataclass(frozen=True, slots=True)
class LoadDefaults:
    """What an overlay asks of a load; the row's settings in ``config.toml`` have the last word.

    Attributes:
        ctx_tokens: The context, or ``None``.
        gpu_layers: Layers on accelerators, or ``None``.
        threads: Of the processor, or ``None``.
        chat_template: A Jinja template in the place of the file's, or ``None``.
        adapters: LoRA adapters.
    """

    ctx_tokens: int | None = None
    gpu_layers: int | None = None
    threads: int | None = None
    chat_template: str | None = None
    adapters: tuple[Path, ...] = ()


LOAD_PARAMETERS = ("num_ctx", "num_gpu", "num_thread")
"""The parameters that take effect at the load and not in a request."""


def load_defaults(overlay: RowOverlay) -> LoadDefaults:
    """Return what an overlay asks of a load.

    A Go template never gets to an engine. ``num_gpu`` below 0 means that the engine decides, ``num_thread`` 0 too.
    """
    gpu_layers = _whole(overlay, "num_gpu")
    return LoadDefaults(
        ctx_tokens=_whole(overlay, "num_ctx"),
        gpu_layers=None if gpu_layers is None or gpu_layers < 0 else gpu_layers,
        threads=_whole(overlay, "num_thread") or None,
        chat_template=overlay.template if is_jinja(overlay.template) else None,
        adapters=overlay.adapters,
    )


def is_go_template(template: str) -> bool:
    """Return whether a chat template is written in Go's language, as Ollama's are."""
    return "{%" not in template and _GO_ACTION.search(template) is not None


def is_jinja(template: str) -> bool:
    """Return whether a chat template is written in Jinja, which engines read."""
    return not is_go_template(template) and _JINJA_MARK.search(template) is not None


def lay_over(beneath: RowOverlay, above: RowOverlay) -> RowOverlay:
    """Return an overlay on top of the one that its source has.

    Parameters are merged name by name; of everything else the upper one wins where it says something.
    """
    return RowOverlay(
        source=above.source,
        system=above.system or beneath.system,
        messages=above.messages or beneath.messages,
        parameters={**beneath.parameters, **above.parameters},
        template=above.template or beneath.template,
        license=above.license or beneath.license,
        adapters=above.adapters or beneath.adapters,
    )


def overlay_text(overlay: RowOverlay) -> str:
    """Return an overlay as the database keeps it: JSON without what is empty."""
    plain = {
        "source": overlay.source,
        "system": overlay.system,
        "messages": [dict(turn) for turn in overlay.messages],
        "parameters": dict(overlay.parameters),
        "template": overlay.template,
        "license": overlay.license,
        # Paths that are not UTF-8 come through as lone surrogates, which JSON can write.
        "adapters": [str(path) for path in overlay.adapters],
    }
    return json.dumps({name: value for name, value in plain.items() if value})


def overlay_of(text: str) -> RowOverlay:
    """Return the overlay that :func:`overlay_text` wrote."""
    plain = json.loads(text or "{}")
    overlay = RowOverlay(**{name: plain[name] for name in _TEXTS if name in plain})
    return replace(
        overlay,
        messages=tuple(plain.get("messages", ())),
        parameters=plain.get("parameters", {}),
        adapters=tuple(Path(path) for path in plain.get("adapters", ())),
    )


_TEXTS = ("source", "system", "template", "license")


def _whole(overlay: RowOverlay, name: str) -> int | None:
    value = overlay.parameters.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
