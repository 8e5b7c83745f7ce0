"""Ollama's chat and generate requests, as canonical ones."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from blazar_gateway.dialects.json_objects import name_in
from blazar_gateway.dialects.ollama.images import image_parts
from blazar_gateway.dialects.ollama.options import translate_options
from blazar_gateway.dialects.ollama.template import render
from blazar_routing.errors import InvalidRequest

THINK_LEVELS = ("low", "medium", "high", "max")


class Kind(StrEnum):
    """What a request asks for."""

    CHAT = "chat"
    COMPLETION = "completion"
    INFILL = "infill"
    LOAD = "load"


@dataclass(frozen=True, slots=True)
class Translated:
    """What a request became.

    Attributes:
        kind: Which of the engine's calls serves it; ``LOAD`` (or unload, by ``keep_alive``) needs none.
        model: As the client wrote it.
        body: The canonical request; for ``COMPLETION`` and ``INFILL`` the engine's own.
        stream: Whether the client wants lines.
        think: ``True``, ``False``, a level, or ``None`` when not said.
        keep_alive: As sent; ``None`` when not said.
        num_ctx: The context asked for, in tokens, or ``None``.
        context: Tokens of an earlier answer of ``/api/generate`` that this one continues.
    """

    kind: Kind
    model: str
    body: dict[str, Any]
    stream: bool
    think: bool | str | None
    keep_alive: object
    num_ctx: int | None
    context: tuple[int, ...] = ()


def chat(request: Mapping[str, Any], *, new_call_id: Callable[[], str]) -> Translated:
    """Translate the body of ``/api/chat``.

    Args:
        request: The parsed body.
        new_call_id: Makes ids for calls in the history, which Ollama's clients leave out.

    Raises:
        InvalidRequest: Something in it is malformed.
    """
    options = translate_options(request.get("options"))
    messages = request.get("messages")
    if messages is not None and not isinstance(messages, list):
        raise InvalidRequest("`messages` must be a list", param="messages")
    body: dict[str, Any] = {"messages": _messages(messages or [], new_call_id), **options.fields}
    if tools := request.get("tools"):
        if not isinstance(tools, list):
            raise InvalidRequest("`tools` must be a list", param="tools")
        body["tools"] = tools
    body.update(_format(request.get("format")))
    body.update(_logprobs(request))
    return _translated(Kind.CHAT if messages else Kind.LOAD, request, body, options.num_ctx)


def generate(request: Mapping[str, Any]) -> Translated:
    """Translate the body of ``/api/generate``.

    Raises:
        InvalidRequest: Something in it is malformed.
    """
    options = translate_options(request.get("options"))
    prompt = _string(request, "prompt")
    suffix = _string(request, "suffix")
    images = image_parts(request.get("images"), where="images")
    body: dict[str, Any] = dict(options.fields)
    body.update(_format(request.get("format")))
    body.update(_logprobs(request))
    if request.get("raw"):
        if any(request.get(name) for name in ("template", "system", "context")):
            raise InvalidRequest("raw mode does not support template, system, or context")
        return _translated(Kind.COMPLETION, request, {"prompt": prompt, **_native(body)}, options.num_ctx)
    if suffix:
        infill = {"input_prefix": prompt, "input_suffix": suffix, **_native(body)}
        if "max_tokens" in infill:
            infill["n_predict"] = infill.pop("max_tokens")
        return _translated(Kind.INFILL, request, infill, options.num_ctx)
    if not prompt and not images:
        return _translated(Kind.LOAD, request, body, options.num_ctx)
    system = _string(request, "system")
    context = _context(request.get("context"))
    if template := _string(request, "template"):
        if images:
            raise InvalidRequest("`template` cannot be used together with `images`", param="template")
        rendered = render(template, {"System": system, "Prompt": prompt})
        body = {"prompt": [*context, rendered] if context else rendered, **_native(body)}
        return _translated(Kind.COMPLETION, request, body, options.num_ctx, context=context)
    messages: list[dict[str, Any]] = []
    if system:
        messages.append({"role": "system", "content": system})
    content = [{"type": "text", "text": prompt}, *images] if images else prompt
    messages.append({"role": "user", "content": content})
    return _translated(Kind.CHAT, request, {"messages": messages, **body}, options.num_ctx, context=context)


def _translated(
    kind: Kind,
    request: Mapping[str, Any],
    body: dict[str, Any],
    num_ctx: int | None,
    *,
    context: tuple[int, ...] = (),
) -> Translated:
    model = name_in(request, "model", "name", missing="model is required")
    stream = request.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise InvalidRequest("`stream` must be true or false", param="stream")
    think = request.get("think")
    if think is not None and not isinstance(think, bool) and think not in THINK_LEVELS:
        raise InvalidRequest(
            f'invalid think value: {json.dumps(think)} (must be "high", "medium", "low", "max", true, or false)',
            param="think",
        )
    return Translated(
        kind=kind,
        model=model,
        body={"model": model, **body},
        stream=stream is not False,
        think=think,
        keep_alive=request.get("keep_alive"),
        num_ctx=num_ctx,
        context=context,
    )


def _native(body: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as text completions take them: a form is a schema there, and logprobs a count."""
    given = dict(body)
    match given.pop("response_format", None):
        case {"type": "json_object"}:
            given["json_schema"] = {"type": "object"}
        case {"json_schema": {"schema": schema}}:
            given["json_schema"] = schema
        case _:
            pass  # no form was asked for
    if given.pop("logprobs", False):
        given["logprobs"] = given.pop("top_logprobs", 0)
    return given


def _context(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(type(token) is int and token >= 0 for token in value):
        raise InvalidRequest("`context` must be a list of tokens, as an earlier answer had it", param="context")
    return tuple(value)


def _messages(messages: list[Any], new_call_id: Callable[[], str]) -> list[dict[str, Any]]:
    """Return the history with calls and results tied together by id, which Ollama's clients tie by name or order."""
    translated: list[dict[str, Any]] = []
    unanswered: list[tuple[str, str]] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, Mapping):
            raise InvalidRequest(f"`{where}` must be an object", param=where)
        match message.get("role"):
            case "assistant":
                turn, calls = _assistant(message, where, new_call_id)
                unanswered = calls
                translated.append(turn)
            case "tool":
                call_id = _answered_call(message, unanswered) or new_call_id()
                translated.append({"role": "tool", "tool_call_id": call_id, "content": _text(message, where)})
            case "system" | "user" as role:
                images = image_parts(message.get("images"), where=f"{where}.images")
                text = _text(message, where)
                content = [*([{"type": "text", "text": text}] if text else []), *images] if images else text
                translated.append({"role": role, "content": content})
            case role:
                raise InvalidRequest(
                    f"`{where}.role` is {role!r}; it must be system, user, assistant or tool", param=f"{where}.role"
                )
    return translated


def _assistant(
    message: Mapping[str, Any], where: str, new_call_id: Callable[[], str]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    turn: dict[str, Any] = {"role": "assistant", "content": _text(message, where)}
    if message.get("thinking"):
        turn["reasoning_content"] = str(message["thinking"])
    calls: list[dict[str, Any]] = []
    names: list[tuple[str, str]] = []
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            here = f"{where}.tool_calls[{index}]"
            raise InvalidRequest(f"`{here}.function.name` is required", param=here)
        arguments = function.get("arguments")
        call_id = str(call.get("id") or new_call_id())
        names.append((call_id, function["name"]))
        calls.append(
            {
                "id": call_id,
                "type": "function",
                "function": {
                    "name": function["name"],
                    "arguments": arguments if isinstance(arguments, str) and arguments else json.dumps(arguments or {}),
                },
            }
        )
    if calls:
        turn["tool_calls"] = calls
    return turn, names


def _answered_call(message: Mapping[str, Any], unanswered: list[tuple[str, str]]) -> str | None:
    """Return the id of the call that a tool message answers, and take it off the list."""
    if call_id := message.get("tool_call_id"):
        unanswered[:] = [call for call in unanswered if call[0] != call_id]
        return str(call_id)
    name = message.get("tool_name") or message.get("name")
    for place, (call_id, called) in enumerate(unanswered):
        if name is None or called == name:
            del unanswered[place]
            return call_id
    return unanswered.pop(0)[0] if unanswered else None


def _text(message: Mapping[str, Any], where: str) -> str:
    content = message.get("content")
    if content is None:
        return ""
    if not isinstance(content, str):
        raise InvalidRequest(f"`{where}.content` must be a string", param=f"{where}.content")
    return content


def _string(request: Mapping[str, Any], name: str) -> str:
    value = request.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequest(f"`{name}` must be a string", param=name)
    return value


def _format(value: object) -> dict[str, Any]:
    if value is None or value == "":
        return {}
    if value == "json":
        return {"response_format": {"type": "json_object"}}
    if isinstance(value, Mapping):
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "output", "schema": dict(value)}}}
    raise InvalidRequest(
        f'invalid format: {json.dumps(value)}; expected "json" or a valid JSON Schema object', param="format"
    )


def _logprobs(request: Mapping[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if request.get("logprobs"):
        chosen["logprobs"] = True
    top = request.get("top_logprobs")
    if top is not None:
        if isinstance(top, bool) or not isinstance(top, int) or not 0 <= top <= 20:
            raise InvalidRequest("top_logprobs must be between 0 and 20", param="top_logprobs")
        chosen["top_logprobs"] = top
    return chosen
