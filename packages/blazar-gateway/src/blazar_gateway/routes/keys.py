"""Keys over HTTP: listed, made, removed, given other secrets; and what they used. For unscoped keys and the owner."""

from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from aiohttp import web

from blazar_gateway.access.keyring import Key, check_limits, check_name
from blazar_gateway.access.quotas import utc_day
from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.context import GATEWAY, KEY
from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.forms.managing import NEW_KEY
from blazar_gateway.ports import KeyRegistry, NewKey
from blazar_routing.errors import AdminOnly, InvalidRequest, KeyMalformed, NoSuchKey

_PRIORITIES = ("high", "normal", "low")
_MOST_DAYS = 366


async def list_keys(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/keys``: every key with its limits and what runs, without secrets."""
    admission = request.app[GATEWAY].admission
    keys = [_plain(key) | {"running": admission.quotas.running(key.name)} for key in admission.keyring.keys]
    return json_answer({"keys": keys})


async def add(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/keys``: make a key; the answer is the only place where its secret ever stands."""
    registry = _registry(request)
    body = NEW_KEY.parse(await read_body(request, limit_bytes=request.app[GATEWAY].max_body_bytes))
    wanted = _new_key(body)
    return json_answer({"name": wanted.name, "key": await registry.add(wanted)}, status=201)


async def remove(request: web.Request) -> web.StreamResponse:
    """Answer ``DELETE /api/keys/{name}``."""
    registry, name = _registry(request), _name(request)
    await registry.remove(name)
    return json_answer({"name": name, "removed": True})


async def rotate(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/keys/{name}/rotate``: another secret, shown this once; the old one ends at once."""
    registry, name = _registry(request), _name(request)
    return json_answer({"name": name, "key": await registry.rotate(name)})


async def usage(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/usage``: requests and tokens by day, key and model; a scoped key sees its own."""
    gateway = request.app[GATEWAY]
    now = gateway.admission.now()
    today = utc_day(now)
    days = _days(request.query.get("days"))
    since = (datetime.fromtimestamp(now, UTC) - timedelta(days=days - 1)).strftime("%Y-%m-%d")
    written = [] if gateway.key_registry is None else await gateway.key_registry.usage_since(since)
    # Of today, memory knows more than what was written last.
    rows = [*gateway.admission.ledger.rows(today), *(row for row in written if row.day != today)]
    key = request.get(KEY)
    if key is not None and not key.is_admin:
        rows = [row for row in rows if row.key == key.name]
    fields = ("day", "key", "model", "requests", "prompt_tokens", "completion_tokens")
    return json_answer({"usage": [{name: getattr(row, name) for name in fields} for row in rows]})


def _registry(request: web.Request) -> KeyRegistry:
    registry = request.app[GATEWAY].key_registry
    if registry is None:
        raise AdminOnly(what="managing keys")
    return registry


def _name(request: web.Request) -> str:
    name = unquote(request.rel_url.raw_path.partition("/keys/")[2].partition("/")[0])
    if request.app[GATEWAY].admission.keyring.named(name) is None:
        raise NoSuchKey(name=name[:200])
    return name


def _new_key(body: JsonObject) -> NewKey:
    for name in body:
        if name not in NEW_KEY.checks:
            raise KeyMalformed(f"`{name[:80]}` is not a field of a key; it takes {', '.join(sorted(NEW_KEY.checks))}")
    models = body.get("models") or []
    if not isinstance(models, list) or not all(isinstance(model, str) and model for model in models):
        raise KeyMalformed("`models` must be an array of model names")
    priority = body.get("max_priority")
    if priority is not None and priority not in _PRIORITIES:
        raise KeyMalformed(f"`max_priority` must be high, normal or low, not {priority!r}")
    return NewKey(
        name=check_name(body.get("name")),
        models=tuple(models),
        limits=check_limits(body),
        max_priority=priority,
        expires=_expires(body.get("expires")),
    )


def _expires(value: object) -> str | None:
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value).isoformat()
    except ValueError:
        pass  # told below, like any other type
    raise KeyMalformed(f"`expires` must be a date or time such as 2027-01-31 or 2027-01-31T12:00:00Z, not {value!r}")


def _days(text: str | None) -> int:
    if text is None:
        return 1
    if text.isascii() and text.isdecimal() and len(text) < 5 and 1 <= int(text) <= _MOST_DAYS:
        return int(text)
    raise InvalidRequest(f"days is '{text[:40]}'; it takes a whole number from 1 to {_MOST_DAYS}.", param="days")


def _plain(key: Key) -> dict[str, object]:
    expires = None if key.expires_at is None else datetime.fromtimestamp(key.expires_at, UTC).isoformat()
    return {
        "name": key.name,
        "models": list(key.models),
        "rpm": key.rpm,
        "tpm": key.tpm,
        "daily_tokens": key.daily_tokens,
        "max_concurrent": key.max_concurrent,
        "weight": key.weight,
        "max_priority": key.max_priority.name.lower(),
        "expires": expires,
    }
