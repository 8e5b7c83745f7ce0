"""What a client asks of a model, ready to be put to an engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self

from blazar_gateway.dialects.json_objects import JsonObject, dump, name_in, parse_object
from blazar_gateway.dialects.openai.legacy import Wishes, check_prompts, take_wishes
from blazar_gateway.dialects.openai.messages import check_messages
from blazar_gateway.dialects.openai.parameters import (
    SHARED_CHECKS,
    Check,
    array,
    boolean,
    boolean_or_number,
    check_fields,
    count,
    mapping,
    text,
    token_limit,
    whole_number,
)
from blazar_gateway.dialects.openai.tools import check_response_format, check_tools
from blazar_routing.errors import InvalidRequest

_STREAM_TAIL = b',"stream":true,"stream_options":{"include_usage":true}}'
_USAGE_TAIL = b',"stream_options":{"include_usage":true}}'


class Surface(StrEnum):
    """The two OpenAI routes that generate; the value is the path on the engine."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation, checked and repaired.

    Attributes:
        surface: The route.
        model: As the client wrote it, or the row's name after :meth:`for_row`.
        stream: Whether the client takes a stream.
        usage_asked: Whether it asked for a usage frame at the stream's end.
        choices: ``n``, at least 1.
        prompts: Prompts in a completion; 1 for a chat.
        max_tokens: The client's limit of an answer, or ``None``.
        keep_alive: The value of that field, unchecked.
        session: The conversation, as far as the body says.
        fields: The body.
        wishes: What a text completion asks for besides the text; ``None`` for a chat.
        raw: The body's bytes, or ``None`` once ``fields`` differs from them.
        sees: Whether there are images in it.
    """

    surface: Surface
    model: str
    stream: bool
    usage_asked: bool
    choices: int
    prompts: int
    max_tokens: int | None
    keep_alive: object
    session: str | None
    fields: JsonObject = field(repr=False)
    raw: bytes | None = field(repr=False)
    wishes: Wishes | None = field(default=None, repr=False)
    sees: bool = False

    @property
    def one_call(self) -> bool:
        """Whether the client takes one tool call at most."""
        return self.fields.get("parallel_tool_calls") is False

    def for_row(self, name: str) -> Self:
        """Return the same generation under the row's own name, which is what its engine calls the model."""
        if self.model == name:
            return self
        return replace(self, model=name, fields={**self.fields, "model": name}, raw=None)

    def streamed_body(self) -> bytes:
        """Return the body that asks the engine for a stream with usage, whatever the client takes.

        Where the client's bytes can stay as they are, the two members are appended to them: parsing a body is cheap,
        writing a long conversation anew for each turn is not.
        """
        if self.raw is not None and "stream_options" not in self.fields:
            if self.fields.get("stream") is True:
                return self.raw[:-1] + _USAGE_TAIL
            if "stream" not in self.fields:
                return self.raw[:-1] + _STREAM_TAIL
        options = self.fields.get("stream_options")
        kept = options if isinstance(options, dict) else {}
        return self._dumped({"stream": True, "stream_options": {**kept, "include_usage": True}})

    def plain_body(self) -> bytes:
        """Return the body that asks the engine for one answer without a stream."""
        return self._dumped({"stream": False, "stream_options": None})

    def _dumped(self, changes: JsonObject) -> bytes:
        fields = {**self.fields, **changes}
        return dump({name: value for name, value in fields.items() if value is not None})


CHAT_CHECKS: Mapping[str, Check] = {
    **SHARED_CHECKS,
    "max_completion_tokens": token_limit,
    "logprobs": boolean,
    "top_logprobs": whole_number,
    "tools": array,
    "parallel_tool_calls": boolean,
    "reasoning_effort": text,
    "chat_template_kwargs": mapping,
    "metadata": mapping,
    "functions": array,
}

COMPLETION_CHECKS: Mapping[str, Check] = {
    **SHARED_CHECKS,
    "suffix": text,
    "echo": boolean,
    "logprobs": boolean_or_number,
    "best_of": count,
}


def parse_chat(body: bytes) -> Generation:
    """Return the generation that a body of ``/v1/chat/completions`` asks for.

    Raises:
        InvalidRequest: It is not one; the error names the field.
    """
    return check_chat(parse_object(body), raw=body)


def check_chat(fields: JsonObject, *, raw: bytes | None = None) -> Generation:
    """Return the generation that a chat's fields ask for, checked and repaired in place.

    Args:
        fields: The body.
        raw: The bytes it was parsed from, or ``None`` for a body that another dialect was translated to.

    Raises:
        InvalidRequest: It is not one; the error names the field.
    """
    changed = check_fields(fields, CHAT_CHECKS)
    model = _model(fields)
    if "messages" not in fields:
        raise InvalidRequest("messages is missing: a chat needs at least one message.", param="messages")
    changed |= check_messages(fields["messages"])
    if "tools" in fields or "tool_choice" in fields:
        changed |= check_tools(fields)
    if "response_format" in fields:
        changed |= check_response_format(fields)
    if "max_completion_tokens" in fields:
        changed |= _unify_limits(fields)
    return _generation(Surface.CHAT, model, fields, prompts=1, raw=None if changed else raw)


def parse_completion(body: bytes) -> Generation:
    """Return the generation that a body of ``/v1/completions`` asks for.

    Raises:
        InvalidRequest: It is not one; the error names the field.
    """
    return check_completion(parse_object(body), raw=body)


def check_completion(fields: JsonObject, *, raw: bytes | None = None) -> Generation:
    """Return the generation that a completion's fields ask for; as :func:`check_chat` does.

    Raises:
        InvalidRequest: It is not one; the error names the field.
    """
    changed = check_fields(fields, COMPLETION_CHECKS)
    model = _model(fields)
    prompts = check_prompts(fields.get("prompt"))
    before = dict(fields)
    wishes = take_wishes(fields, prompts)
    kept = None if changed or fields != before else raw
    return replace(_generation(Surface.COMPLETIONS, model, fields, prompts=len(prompts), raw=kept), wishes=wishes)


def _model(fields: JsonObject) -> str:
    return name_in(fields, "model", missing="model is missing: name the model to use (GET /v1/models lists them).")


def _unify_limits(fields: JsonObject) -> bool:
    """Leave one limit, under the name that every engine knows; the newer name wins."""
    limit = fields.pop("max_completion_tokens")
    if limit is not None:
        fields["max_tokens"] = limit
    return True


def _generation(surface: Surface, model: str, fields: JsonObject, *, prompts: int, raw: bytes | None) -> Generation:
    options = fields.get("stream_options")
    choices = fields.get("n")
    limit = fields.get("max_tokens")
    session = fields.get("prompt_cache_key")
    return Generation(
        surface=surface,
        model=model,
        stream=fields.get("stream") is True,
        usage_asked=isinstance(options, dict) and options.get("include_usage") is True,
        choices=choices if isinstance(choices, int) else 1,
        prompts=prompts,
        max_tokens=limit if isinstance(limit, int) else None,
        keep_alive=fields.get("keep_alive"),
        session=session if isinstance(session, str) and session else None,
        fields=fields,
        raw=_spliceable(raw) if raw is not None else None,
    )


def _spliceable(raw: bytes) -> bytes | None:
    """Return the bytes up to the closing brace, or ``None`` if a byte order mark stands before them."""
    if raw[:1] == b"\xef":
        return None
    return raw if raw[-1:] == b"}" else raw.rstrip(b" \t\r\n")
