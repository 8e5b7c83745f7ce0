"""Ollama's prompt templates, as far as one prompt and a system text need them.

They are Go templates. What is understood: ``{{ .System }}``, ``{{ .Prompt }}``, ``{{ .Suffix }}``, ``{{ .Response }}``
(where the answer begins; what follows is cut off), and ``{{ if .System }} … {{ else }} … {{ end }}`` around them, with
``{{-`` and ``-}}`` trimming blanks.
"""

import re
from collections.abc import Mapping

from blazar_routing.errors import InvalidRequest

_TOKEN = re.compile(r"(\{\{-?.*?-?\}\})", re.DOTALL)
_FIELDS = ("System", "Prompt", "Suffix", "Response")


def render(template: str, values: Mapping[str, str]) -> str:
    """Return the prompt.

    Args:
        template: As the client sent it.
        values: ``System``, ``Prompt`` and so on; what is absent is empty.

    Raises:
        InvalidRequest: The template uses something else than the fields and conditions above.
    """
    out: list[str] = []
    shown = [True]
    trim_next = False
    for token in _TOKEN.split(template):
        if not token.startswith("{{"):
            text = token.lstrip() if trim_next else token
            trim_next = False
            if all(shown):
                out.append(text)
            continue
        if token.startswith("{{-") and out:
            out[-1] = out[-1].rstrip()
        trim_next = token.endswith("-}}")
        action = token.strip("{}").strip("-").strip()
        if action == ".Response":
            break
        _apply(action, values, shown, out)
    return "".join(out)


def _apply(action: str, values: Mapping[str, str], shown: list[bool], out: list[str]) -> None:
    word, _, rest = action.partition(" ")
    if word == "if" and rest.strip().removeprefix(".") in _FIELDS:
        shown.append(bool(values.get(rest.strip().removeprefix("."))))
    elif action == "else" and len(shown) > 1:
        shown[-1] = not shown[-1]
    elif action == "end" and len(shown) > 1:
        shown.pop()
    elif action.removeprefix(".") in _FIELDS and action.startswith("."):
        if all(shown):
            out.append(values.get(action[1:], ""))
    else:
        raise InvalidRequest(
            f"`template` has the action '{{{{ {action[:60]} }}}}', which cannot be rendered here. It may use .System, "
            ".Prompt and .Response, and `if` around them; or leave it out: the model's own template is used then.",
            param="template",
        )
