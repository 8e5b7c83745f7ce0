"""From a translated chat to a run: checked, gated, and given its place in the queue."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson
from aiohttp import web

from blazar_gateway.chat_runs import Run
from blazar_gateway.context import GATEWAY, KEY, Gateway
from blazar_gateway.dialects.json_objects import parse_object
from blazar_gateway.dialects.openai.generation import Generation, Surface, check_chat, check_completion
from blazar_gateway.domains import Domain, check_domain, check_media
from blazar_gateway.images import settle_images
from blazar_gateway.keep_alive import parse_keep_alive
from blazar_gateway.leases import Borrowed
from blazar_gateway.ports import ModelCard
from blazar_gateway.row_defaults import defaults_of, fill_chat, fill_parameters
from blazar_gateway.singleflight import is_deterministic
from blazar_gateway.thinking import check_can_think, knows_thinking, set_thinking
from blazar_gateway.tickets import make_ticket
from blazar_gateway.tool_use import check_can_use_tools
from blazar_routing.errors import InvalidRequest
from blazar_routing.instances import Role

_MEDIA = (b"image_url", b"input_audio", b'"file"', b"\\u00")
"""Without one of these a body has nothing but text in it. The last is how a letter of the others can be disguised."""


def prepare_chat(
    body: Mapping[str, Any], card: ModelCard, *, think: bool | str | None, continues: bool = False
) -> Generation:
    """Return the generation that a canonical body asks for.

    Args:
        body: As a dialect translated it.
        card: The model's row; what was written for its name is replaced by the row's own.
        think: The client's wish, ``None`` when it has none.
        continues: Whether the conversation's beginning is not in the body.

    Raises:
        InvalidRequest: It is malformed, or the model cannot do it.
    """
    check_domain(card, Domain.TEXT)
    fields = {**body, "model": card.name}
    card.rules.apply(fields, chat=True)
    fill_chat(fields, defaults_of(card), continues=continues)
    asked = check_chat(fields)
    check_can_use_tools(fields, card)
    sees = check_media(fields["messages"], card)
    set_thinking(fields, card, think=None if card.rules.overrule_thinking else think)
    return replace(asked, sees=sees)


def with_defaults(asked: Generation, card: ModelCard) -> Generation:
    """Return a generation of OpenAI's own dialect with what its row adds; its bytes stay where that is nothing."""
    defaults = defaults_of(card)
    if not defaults:
        return asked
    if asked.wishes is not None and not asked.wishes.limited and "max_tokens" in defaults.fields:
        # The row's own limit is nearer to what its owner means than what completions have by themselves.
        del asked.fields["max_tokens"]
    fill = fill_chat if asked.surface is Surface.CHAT else fill_parameters
    if not fill(asked.fields, defaults):
        return asked
    limit = asked.fields.get("max_tokens")
    return replace(asked, raw=None, max_tokens=limit if isinstance(limit, int) else None)


async def with_images(gateway: Gateway, asked: Generation) -> Generation:
    """Return a chat whose images are all in it; those that were given by address have been fetched.

    Raises:
        InvalidRequest: One is malformed, or cannot be had.
    """
    if _may_hold_media(asked) and await settle_images(gateway, asked.fields):
        return replace(asked, raw=None)
    return asked


def _may_hold_media(asked: Generation) -> bool:
    return asked.raw is None or any(mark in asked.raw for mark in _MEDIA)


def apply_rules(asked: Generation, body: bytes, card: ModelCard) -> Generation:
    """Return a generation of OpenAI's own dialect as the model's owner allows it.

    Args:
        asked: What the body asks for.
        body: The client's bytes, which stay where nothing has to change.
        card: The model.

    Raises:
        InvalidRequest: It makes no sense any more.
    """
    if not card.rules.change_requests:
        return asked
    # Anew from the start: what a completion wishes besides the text has been taken out of its fields.
    fields = parse_object(body)
    if asked.surface is Surface.COMPLETIONS:
        card.rules.apply(fields, chat=False)
        return check_completion(fields)
    card.rules.apply(fields, chat=True)
    if card.rules.overrule_thinking:
        fields.pop("think", None)
    return check_chat(fields)


def gate_chat(asked: Generation, card: ModelCard) -> Generation:
    """Return a chat of OpenAI's own dialect as the engine shall have it; its bytes stay where nothing has to change.

    Raises:
        InvalidRequest: The model cannot see, think or use tools, and the chat asks for it.
    """
    fields = asked.fields
    check_can_use_tools(fields, card)
    if _may_hold_media(asked) and check_media(fields["messages"], card):
        asked = replace(asked, sees=True)
    if "think" not in fields and fields.get("reasoning_effort") is None and not knows_thinking(card):
        return asked
    # Not OpenAI's: what Ollama's users write beside it.
    think = fields.pop("think", None)
    if think is not None and not isinstance(think, bool | str):
        raise InvalidRequest("think must be true, false or a level.", param="think")
    if think is True or (isinstance(think, str) and think != "none"):
        check_can_think(card, asked_as="think")
    changed = set_thinking(fields, card, think=think)
    return replace(asked, raw=None) if changed or think is not None else asked


def instance_of(request: web.Request, asked: Generation) -> str:
    """Return the instance of the model that a generation waits for: one that sees, if there is something to see.

    Raises:
        InvalidRequest: The settings keep the model's projector away.
    """
    return request.app[GATEWAY].host.instance_for(asked.model, Role.VISION) if asked.sees else asked.model


def make_run(
    request: web.Request,
    asked: Generation,
    *,
    body_bytes: int,
    session: str | None = None,
    keep_alive: object = None,
    stop_words: tuple[str, ...] = (),
    num_ctx: int | None = None,
    before: Callable[[Borrowed], Awaitable[None]] | None = None,
    alone: bool = False,
) -> Run:
    """Return a run of a chat or completion.

    Args:
        request: The client's.
        asked: What :func:`prepare_chat` returned.
        body_bytes: Of the client's body; decides the class and the estimate of the prompt.
        session: The conversation, as far as the body says.
        keep_alive: As the client wrote it.
        stop_words: Strings that the gateway looks for, because the client wants to know which was met.
        num_ctx: The context that the client asks for, in tokens, or ``None``.
        before: What is checked once there is a lease.
        alone: Whether the answer takes more of the engine than the chat, so that it cannot be another's.

    Raises:
        InvalidRequest: ``keep_alive`` or a scheduling header is malformed.
    """
    if stop_words:
        # The stream is closed at the match, so its last chunk's count is all there will be.
        asked.fields["timings_per_token"] = True
    return Run(
        request=request,
        gateway=request.app[GATEWAY],
        ticket=make_ticket(
            model=instance_of(request, asked),
            headers=request.headers,
            body_bytes=body_bytes,
            choices=1,
            max_tokens=asked.max_tokens,
            session=session or asked.session,
            key=request.get(KEY),
            ctx_tokens=num_ctx or 0,
        ),
        path=asked.surface,
        streamed=asked.streamed_body(),
        plain=asked.plain_body() if asked.fields.get("tools") else None,
        keep_alive=parse_keep_alive(keep_alive),
        stop_words=stop_words,
        one_call=asked.one_call,
        before=before,
        deterministic=None if alone else is_deterministic(asked.fields),
    )


def as_bytes(value: object) -> bytes:
    """Return an answer's object as JSON."""
    return orjson.dumps(value)
