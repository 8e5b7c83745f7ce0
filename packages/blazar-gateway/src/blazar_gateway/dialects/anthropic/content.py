"""Anthropic's content blocks, as OpenAI messages.

One turn may become several messages: tool results come first, each as a ``tool`` message, then what is left of the
turn. What only Anthropic's own servers can make sense of (server tools, container uploads) is dropped.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from blazar_routing.errors import InvalidRequest

_DROPPED = frozenset(
    {
        "redacted_thinking",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "container_upload",
    }
)


def text_of(content: object, *, where: str) -> str:
    """Return the text of a string or of a list of text blocks (a ``system`` prompt), blocks joined by a line.

    Raises:
        InvalidRequest: It is something else.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"`{where}` must be a string or a list of text blocks", param=where)
    texts = []
    for index, block in enumerate(content):
        if not isinstance(block, dict) or block.get("type") != "text":
            raise InvalidRequest(f"`{where}[{index}]` must be a text block", param=f"{where}[{index}]")
        if text := str(block.get("text") or ""):
            texts.append(text)
    return "\n".join(texts)


def user_messages(content: object, *, where: str) -> list[dict[str, Any]]:
    """Return a user turn as messages.

    Raises:
        InvalidRequest: A block is malformed or of an unknown type; the text names it.
    """
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    results: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for index, block in enumerate(_blocks(content, where)):
        here = f"{where}[{index}]"
        if block.get("type") == "tool_result":
            message, images = _tool_result(block, here)
            results.append(message)
            parts += images
        else:
            parts += _parts(block, here)
    if parts:
        results.append({"role": "user", "content": _flattened(parts)})
    return results


def assistant_message(content: object, *, where: str) -> dict[str, Any] | None:
    """Return an assistant turn as one message, or ``None`` when nothing of it is left.

    Raises:
        InvalidRequest: A block is malformed or of an unknown type; the text names it.
    """
    if isinstance(content, str):
        return {"role": "assistant", "content": content}
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for index, block in enumerate(_blocks(content, where)):
        here = f"{where}[{index}]"
        match block.get("type"):
            case "tool_use":
                calls.append(_tool_use(block, here))
            case "thinking":
                thoughts.append(str(block.get("thinking") or ""))
            case _:
                texts += [part["text"] for part in _parts(block, here) if part["type"] == "text"]
    if not (texts or calls or any(thoughts)):
        return None
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) if texts or not calls else None}
    if any(thoughts):
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _blocks(content: object, where: str) -> Sequence[Mapping[str, Any]]:
    if content is None:
        return ()
    if not isinstance(content, list):
        raise InvalidRequest(f"`{where}` must be a string or a list of content blocks", param=where)
    for index, block in enumerate(content):
        if not isinstance(block, dict):
            raise InvalidRequest(f"`{where}[{index}]` must be an object with a `type`", param=f"{where}[{index}]")
    return content


def _parts(block: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Return a block that is neither a tool's use nor its result as OpenAI content parts."""
    kind = block.get("type")
    if kind in _DROPPED:
        return []
    match kind:
        case "text":
            text = str(block.get("text") or "")
            return [{"type": "text", "text": text}] if text.strip() else []
        case "image":
            return [{"type": "image_url", "image_url": {"url": _image_url(block.get("source"), where)}}]
        case "document":
            return [{"type": "text", "text": _document(block, where)}]
        case "search_result":
            return [{"type": "text", "text": _search_result(block, where)}]
        case "thinking":
            return []
        case _:
            raise InvalidRequest(f"`{where}` has the unknown content block type {kind!r}", param=where)


def _image_url(source: object, where: str) -> str:
    """Return an image's source as a URL; a malformed source is refused rather than replaced by a note."""
    if isinstance(source, dict):
        if source.get("type") == "base64" and isinstance(source.get("data"), str) and source["data"]:
            return f"data:{source.get('media_type') or 'image/png'};base64,{source['data']}"
        if source.get("type") == "url" and isinstance(source.get("url"), str) and source["url"]:
            return str(source["url"])
    raise InvalidRequest(
        f"`{where}.source` must be {{type: base64, media_type, data}} or {{type: url, url}}", param=f"{where}.source"
    )


def _document(block: Mapping[str, Any], where: str) -> str:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if isinstance(source, dict) and kind == "text" and isinstance(source.get("data"), str):
        body = source["data"]
    elif isinstance(source, dict) and kind == "content":
        body = text_of(source.get("content"), where=f"{where}.source.content")
    else:
        raise InvalidRequest(
            f"`{where}` is a document of type {kind!r}, which local models cannot read: "
            "send its text, as {type: text, media_type: text/plain, data}",
            param=f"{where}.source",
        )
    title = f"{block['title']}\n" if block.get("title") else ""
    context = f"{block['context']}\n" if block.get("context") else ""
    return f"{title}{context}{body}"


def _search_result(block: Mapping[str, Any], where: str) -> str:
    body = text_of(block.get("content"), where=f"{where}.content")
    return "\n".join(line for line in (str(block.get("title") or ""), str(block.get("source") or ""), body) if line)


def _tool_use(block: Mapping[str, Any], where: str) -> dict[str, Any]:
    name, call_id = block.get("name"), block.get("id")
    if not isinstance(name, str) or not name:
        raise InvalidRequest(f"`{where}.name` is required", param=f"{where}.name")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidRequest(f"`{where}.id` is required", param=f"{where}.id")
    arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _tool_result(block: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a tool's result as its message, and the images in it, which only a user turn can carry."""
    call_id = block.get("tool_use_id")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidRequest(f"`{where}.tool_use_id` is required", param=f"{where}.tool_use_id")
    content = block.get("content")
    if isinstance(content, str):
        parts = [{"type": "text", "text": content}]
    else:
        parts = [
            part
            for index, inner in enumerate(_blocks(content, f"{where}.content"))
            for part in _parts(inner, f"{where}.content[{index}]")
        ]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    if block.get("is_error"):
        text = f"Error: {text}"
    images = [part for part in parts if part["type"] == "image_url"]
    return {"role": "tool", "tool_call_id": call_id, "content": text}, images


def _flattened(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return text alone as one string, since many chat templates take nothing else."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts
