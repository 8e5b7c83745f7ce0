"""``context`` of ``/api/generate``: the conversation so far as tokens, which a client sends back to go on with it.

Chat requests have no place for tokens, so a continued one is rendered with the engine's own template first and sent as
a prompt that begins with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from blazar_gateway.chat_runs import Run
from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import Gateway
from blazar_gateway.dialects.openai.generation import Generation
from blazar_gateway.leases import Borrowed

_TEMPLATE_FIELDS = ("messages", "chat_template_kwargs", "model")
_NOT_IN_COMPLETIONS = frozenset({"messages", "chat_template_kwargs", "response_format", "logprobs", "top_logprobs"})


def continued_prompt(run: Run, asked: Generation, context: Sequence[int]) -> Run:
    """Return a run that renders the chat once there is a lease, and sends it behind the tokens in ``context``."""
    parameters = {name: value for name, value in asked.fields.items() if name not in _NOT_IN_COMPLETIONS}
    match asked.fields.get("response_format"):
        case {"type": "json_object", "schema": schema} | {"json_schema": {"schema": schema}}:
            parameters["json_schema"] = schema
        case _:
            pass  # no form was asked for

    async def streamed(borrowed: Borrowed) -> bytes:
        prompt = await rendered(run.gateway, borrowed, asked.fields)
        options = {"stream": True, "stream_options": {"include_usage": True}}
        return orjson.dumps({**parameters, "prompt": [*context, prompt], **options})

    return replace(run, path="/v1/completions", plain=None, make_streamed=streamed)


async def rendered(gateway: Gateway, borrowed: Borrowed, fields: Mapping[str, Any]) -> str:
    """Return a chat as the engine's own template writes it.

    Raises:
        EngineRefusal: The engine would not.
    """
    body = orjson.dumps({name: fields[name] for name in _TEMPLATE_FIELDS if name in fields})
    async with ChildCall(gateway, borrowed, "/apply-template", body) as call:
        await call.check_status()
        answer = orjson.loads(await call.read_all())
    return str(answer.get("prompt") or "")


async def context_after(
    gateway: Gateway, borrowed: Borrowed, body: Mapping[str, Any], said: str, *, before: Sequence[int]
) -> list[int] | None:
    """Return the tokens of everything up to and including the answer, or ``None`` when the engine does not tell."""
    prompt = body.get("prompt")
    if isinstance(prompt, list):
        prompt = prompt[-1]
    if not isinstance(prompt, str):
        async with ChildCall(gateway, borrowed, "/apply-template", orjson.dumps(body)) as call:
            if call.answer.status != 200:
                return None
            prompt = str(orjson.loads(await call.read_all()).get("prompt") or "")
    text = orjson.dumps({"content": prompt + said, "add_special": not before})
    async with ChildCall(gateway, borrowed, "/tokenize", text) as call:
        if call.answer.status != 200:
            return None
        tokens = orjson.loads(await call.read_all()).get("tokens")
    return [*before, *tokens] if isinstance(tokens, list) else None
