"""Calls that need a loaded engine but no slot of it: tokens and templates."""

from aiohttp import web

from blazar_gateway.answers import send_whole, timing_headers
from blazar_gateway.bodies import read_body
from blazar_gateway.child_calls import ChildCall
from blazar_gateway.context import GATEWAY, KEY
from blazar_gateway.dialects.json_objects import dump
from blazar_gateway.forms.form import Form
from blazar_gateway.forms.openai import APPLY_TEMPLATE, DETOKENIZE, TOKENIZE
from blazar_gateway.leases import Borrowed, ChildStalled
from blazar_gateway.rows import get_card_or_only
from blazar_gateway.tickets import make_call_ticket
from blazar_routing.errors import EngineStalled


async def tokenize(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /tokenize``."""
    return await _forward(request, "/tokenize", TOKENIZE)


async def detokenize(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /detokenize``."""
    return await _forward(request, "/detokenize", DETOKENIZE)


async def apply_template(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /apply-template``."""
    return await _forward(request, "/apply-template", APPLY_TEMPLATE)


async def _forward(request: web.Request, path: str, form: Form) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    fields = form.parse(await read_body(request, limit_bytes=gateway.max_body_bytes))
    card = get_card_or_only(request, fields.get("model"))
    # Null means absent here; an engine takes it for a value of the wrong type.
    body = dump({name: value for name, value in fields.items() if value is not None})
    ticket = make_call_ticket(model=card.name, headers=request.headers, key=request.get(KEY))
    try:
        async with Borrowed(gateway, ticket) as borrowed, ChildCall(gateway, borrowed, path, body) as call:
            await call.check_status()
            return await send_whole(request, await call.read_all(), timing_headers(borrowed.lease))
    except ChildStalled:
        # Such a call takes milliseconds; what hangs on it hangs altogether.
        limit_s = gateway.settings().child_header_timeout_secs
        raise EngineStalled(model=card.name, seconds=limit_s) from None
