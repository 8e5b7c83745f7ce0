"""The response object, with every key that clients' validators ask for, whatever its state."""

from collections.abc import Mapping
from typing import Any

from blazar_gateway.dialects.events import UsageReported


def response_object(
    request: Mapping[str, Any], *, response_id: str, created_at: int, model: str, store: bool
) -> dict[str, Any]:
    """Return the object as it is before anything was generated.

    Args:
        request: The request's body, whose parameters are echoed.
        response_id: ``resp_...``.
        created_at: Unix seconds.
        model: As the client wrote it.
        store: Whether it is kept.
    """

    def echoed(name: str, default: Any) -> Any:
        value = request.get(name)
        return default if value is None else value

    reasoning = request.get("reasoning")
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "max_tool_calls": request.get("max_tool_calls"),
        "metadata": echoed("metadata", {}),
        "model": model,
        "output": [],
        "parallel_tool_calls": echoed("parallel_tool_calls", True),
        "previous_response_id": request.get("previous_response_id"),
        "presence_penalty": echoed("presence_penalty", 0.0),
        "frequency_penalty": echoed("frequency_penalty", 0.0),
        "prompt_cache_key": request.get("prompt_cache_key"),
        "reasoning": dict(reasoning) if isinstance(reasoning, Mapping) else {"effort": None, "summary": None},
        "safety_identifier": request.get("safety_identifier"),
        "service_tier": "default",
        "store": store,
        "temperature": echoed("temperature", 1.0),
        "text": echoed("text", {"format": {"type": "text"}}),
        "tool_choice": echoed("tool_choice", "auto"),
        "tools": echoed("tools", []),
        "top_logprobs": echoed("top_logprobs", 0),
        "top_p": echoed("top_p", 1.0),
        "truncation": echoed("truncation", "disabled"),
        "usage": None,
        "user": request.get("user"),
    }


def usage_object(usage: UsageReported | None) -> dict[str, Any] | None:
    """Return the counts in this API's form, or ``None`` when the engine did not count."""
    if usage is None:
        return None
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
