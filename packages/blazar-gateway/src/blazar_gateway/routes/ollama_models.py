"""Ollama's calls about model rows: show, delete, copy, create, and what this server refuses to do."""

import re
from collections.abc import AsyncIterator
from typing import Any

import orjson
from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.context import GATEWAY, Gateway
from blazar_gateway.dialects.json_objects import JsonObject, name_in
from blazar_gateway.dialects.ollama import show as shown
from blazar_gateway.forms.form import Form
from blazar_gateway.forms.ollama import COPY, CREATE, NAMED, PUSH, SHOW
from blazar_gateway.ports import ModelRegistry, Overlay
from blazar_gateway.rows import get_card
from blazar_routing.errors import InvalidRequest, UnsupportedEndpoint

_DIGEST = re.compile(r"sha256[:-][0-9a-f]{64}")
_RESERVED = re.compile(r"[#\x00-\x1f]|@vision$|@embed$|(^|/)\.\.?(/|$)")
_MAX_NAME = 255


async def show(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/show``."""
    gateway = request.app[GATEWAY]
    body = await _body(request, SHOW)
    card = get_card(request, _name(body))
    found = None
    if gateway.registry is not None:
        found = await gateway.registry.details(card.name, verbose=body.get("verbose") is True)
    return json_answer(shown.show(card, found))


async def delete(request: web.Request) -> web.StreamResponse:
    """Answer ``DELETE /api/delete``: remove a row, once its engine has gone."""
    gateway = request.app[GATEWAY]
    card = get_card(request, _name(await _body(request, NAMED)))
    registry = _registry(gateway, "delete models", f"blazar models rm {card.name}")
    await gateway.host.unload(card.name)
    await registry.delete(card.name)
    return web.Response()


async def copy(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/copy``: a second name for a row."""
    gateway = request.app[GATEWAY]
    body = await _body(request, COPY)
    source = name_in(body, "source", missing="source is required: name the model to copy.")
    card = get_card(request, source)
    destination = _new_name(body, "destination")
    registry = _registry(gateway, "copy models", f"blazar models add {card.path} --name {destination}")
    await registry.copy(card.name, destination)
    return web.Response()


async def create(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/create``: a row that is another one with defaults of its own."""
    gateway = request.app[GATEWAY]
    body = await _body(request, CREATE)
    overlay = _overlay(request, body)
    registry = _registry(gateway, "create models", "blazar models add PATH")
    await registry.create(overlay)
    steps = ["using existing layer", "writing manifest", "success"]
    return _statuses(body, [{"status": step} for step in steps])


async def push(request: web.Request) -> web.StreamResponse:
    """Refuse ``POST /api/push``."""
    name = _name(await _body(request, PUSH))
    raise InvalidRequest(
        f"model '{name[:200]}' stays on this machine: this server never uploads anything. "
        "To publish it, upload its file with the tools of the site you mean.",
        param="model",
    )


async def blob(request: web.Request) -> web.StreamResponse:
    """Answer ``HEAD /api/blobs/{digest}``: whether a file was uploaded."""
    digest = _digest(request)
    registry = request.app[GATEWAY].registry
    if registry is None or not registry.has_blob(digest):
        raise UnsupportedEndpoint(method=request.method, path=f"/api/blobs/{digest[:19]}…")
    return web.Response()


async def add_blob(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/blobs/{digest}``: take a file for a later create."""
    digest = _digest(request)
    registry = _registry(request.app[GATEWAY], "take uploaded files", "blazar models add FILE")
    if registry.has_blob(digest):
        return web.Response()
    await registry.add_blob(digest, _pieces(request))
    return web.Response(status=201)


async def _pieces(request: web.Request) -> AsyncIterator[bytes]:
    """Yield the upload as it comes; weights are far larger than the limit of request bodies."""
    while piece := await request.content.readany():
        yield piece


async def _body(request: web.Request, form: Form) -> JsonObject:
    return form.parse(await read_body(request, limit_bytes=request.app[GATEWAY].max_body_bytes))


def _name(body: JsonObject) -> str:
    return name_in(body, "model", "name", missing="model is required")


def _new_name(body: JsonObject, *fields: str) -> str:
    field, missing = fields[0], f"{fields[0]} is required: the new model's name."
    name = name_in(body, *fields, missing=missing).strip().removesuffix(":latest")
    if not name:
        raise InvalidRequest(missing, param=field)
    if len(name) > _MAX_NAME or _RESERVED.search(name):
        raise InvalidRequest(
            f"{field} '{name[:80]}' cannot be a model's name: no '#', no '@vision' or '@embed' at the end, no '..', "
            f"no control characters, {_MAX_NAME} characters at most.",
            param=field,
        )
    return name


def _registry(gateway: Gateway, what: str, command: str) -> ModelRegistry:
    if gateway.registry is None:
        raise InvalidRequest(f"this server does not {what} over HTTP. On its machine, type `{command}`.")
    return gateway.registry


def _overlay(request: web.Request, body: JsonObject) -> Overlay:
    name = _new_name(body, "model", "name")
    source, files = body.get("from"), body.get("files")
    if not source and not files:
        raise InvalidRequest("neither 'from' or 'files' was specified", param="from")
    if source is not None and not isinstance(source, str):
        raise InvalidRequest("'from' must be the name of a model", param="from")
    return Overlay(
        name=name,
        source=get_card(request, source).name if source else None,
        files=_digests(body, "files"),
        adapters=_digests(body, "adapters"),
        template=_text(body, "template"),
        system=_text(body, "system"),
        parameters=_mapping(body, "parameters"),
        messages=tuple(item for item in _list(body, "messages") if isinstance(item, dict)),
        license=_license(body),
        quantize=_text(body, "quantize"),
    )


def _mapping(body: JsonObject, name: str) -> dict[str, Any]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequest(f"'{name}' must be an object", param=name)
    return value


def _digests(body: JsonObject, name: str) -> dict[str, str]:
    """Return file names and the digests of what was uploaded for them."""
    files = _mapping(body, name)
    for file, digest in files.items():
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise InvalidRequest(
                f"'{name}' must hold a digest for '{file[:80]}': sha256: and 64 hex digits.", param=name
            )
    return {file: digest.replace("sha256-", "sha256:") for file, digest in files.items()}


def _license(body: JsonObject) -> str:
    value = body.get("license")
    return value if isinstance(value, str) else "\n".join(map(str, _list(body, "license")))


def _list(body: JsonObject, name: str) -> list[Any]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidRequest(f"'{name}' must be a list", param=name)
    return value


def _text(body: JsonObject, name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidRequest(f"'{name}' must be a string", param=name)
    return value


def _digest(request: web.Request) -> str:
    digest = request.path.rstrip("/").rpartition("/")[2]
    if not _DIGEST.fullmatch(digest):
        raise InvalidRequest(f"'{digest[:80]}' is not a digest: sha256: and 64 hex digits.", param="digest")
    return digest.replace("sha256-", "sha256:")


def _statuses(body: JsonObject, steps: list[dict[str, str]]) -> web.Response:
    """Return the steps as lines, or the last of them to a client that does not stream."""
    if body.get("stream") is False:
        return json_answer(steps[-1])
    lines = b"".join(orjson.dumps(step) + b"\n" for step in steps)
    return web.Response(body=lines, content_type="application/x-ndjson")
