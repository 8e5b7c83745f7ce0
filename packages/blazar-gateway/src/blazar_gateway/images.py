"""The images of a chat, made into what every engine takes: data in the request itself."""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any

from blazar_gateway.context import Gateway
from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.image_fetch import switched_off, too_slow
from blazar_routing.errors import InvalidRequest

_MAGIC: Mapping[bytes, str] = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
}
_IN_THREAD_CHARS = 256 << 10


async def settle_images(gateway: Gateway, fields: JsonObject) -> bool:
    """Fetch the images that a chat gives by address, and check those that came with it; return whether it changed.

    Args:
        gateway: Fetches.
        fields: A canonical chat that :func:`~blazar_gateway.domains.check_media` has passed.

    Raises:
        InvalidRequest: An image is malformed, or cannot be had; the text says why.
    """
    images, changed = _images_in(fields.get("messages"))
    for image in images:
        if image["url"][:5].lower() == "data:":
            changed |= await _check_data(image)
    by_address = [image for image in images if image["url"][:5].lower() != "data:"]
    if not by_address:
        return changed
    settings = gateway.settings()
    if not settings.fetch_images:
        raise switched_off()
    await _fetch_all(gateway, by_address, settings.fetch_images_max_mb << 20, settings.fetch_images_timeout_secs)
    return True


def _images_in(messages: object) -> tuple[list[dict[str, Any]], bool]:
    """Return the ``image_url`` objects of the messages, and whether a part that had the bare address got one."""
    found: list[dict[str, Any]] = []
    changed = False
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "image_url":
                if isinstance(part.get("image_url"), str):
                    part["image_url"] = {"url": part["image_url"]}
                    changed = True
                found.append(part["image_url"])
    return found, changed


async def _check_data(image: dict[str, Any]) -> bool:
    """Check an image that is data, in place; return whether it had to be made regular."""
    head, comma, data = image["url"].partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise _malformed("it has to begin like data:image/png;base64,")
    if len(data) > _IN_THREAD_CHARS:
        joined = await asyncio.to_thread(_checked_base64, data)
    else:
        joined = _checked_base64(data)
    if joined is data:
        return False
    image["url"] = f"{head},{joined}"
    return True


def _checked_base64(data: str) -> str:
    joined = "".join(data.split())
    joined += "=" * (-len(joined) % 4)
    try:
        if not binascii.a2b_base64(joined.encode("ascii"), strict_mode=True):
            raise _malformed("it is empty")
    except (binascii.Error, UnicodeEncodeError):
        raise _malformed("what follows the comma is not base64") from None
    return data if joined == data else joined


def _malformed(why: str) -> InvalidRequest:
    return InvalidRequest(f"an image in the messages is malformed: {why}.", param="messages")


async def _fetch_all(gateway: Gateway, images: list[dict[str, Any]], limit_bytes: int, limit_s: float) -> None:
    """Put the images themselves in the place of their addresses, the limits being for all of them together."""
    fetched = dict.fromkeys((str(image["url"]) for image in images), "")
    left = limit_bytes
    loop = asyncio.get_running_loop()
    until = loop.time() + limit_s
    for url in fetched:
        try:
            async with asyncio.timeout_at(until):
                data, kind = await gateway.images.fetch(url, limit_bytes=left)
        except TimeoutError:
            raise too_slow(url, limit_s) from None
        left -= len(data)
        fetched[url] = f"data:{_media_type(data, kind, url)};base64,{await asyncio.to_thread(_as_base64, data)}"
    for image in images:
        image["url"] = fetched[image["url"]]


def _as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _media_type(data: bytes, kind: str, url: str) -> str:
    for magic, found in _MAGIC.items():
        if data.startswith(magic):
            return found
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data and kind.startswith("image/") and kind != "image/svg+xml":
        return kind
    raise InvalidRequest(f"what is at {url[:200]} is not an image, but {kind} of {len(data)} bytes.", param="messages")
