"""Images as Ollama's clients send them: bare base64, told apart by their first bytes."""

import base64
import binascii
from typing import Any

from blazar_routing.errors import InvalidRequest

_MAGIC = ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"), (b"RIFF", "image/webp"))


def image_parts(images: object, *, where: str) -> list[dict[str, Any]]:
    """Return a list of base64 strings as OpenAI image parts; ``None`` is an empty list.

    Raises:
        InvalidRequest: It is no list of base64 strings.
    """
    if images is None:
        return []
    if not isinstance(images, list):
        raise InvalidRequest(f"`{where}` must be a list of base64 strings", param=where)
    return [
        {"type": "image_url", "image_url": {"url": _data_url(image, f"{where}[{index}]")}}
        for index, image in enumerate(images)
    ]


def _data_url(image: object, where: str) -> str:
    if not isinstance(image, str) or not image:
        raise InvalidRequest(f"`{where}` must be a base64 string", param=where)
    if image.startswith(("data:", "http://", "https://")):
        # More than Ollama takes, but nothing else could be meant.
        return image
    try:
        head = base64.b64decode(image[:32], validate=True)
    except binascii.Error:
        raise InvalidRequest(f"`{where}` is not valid base64", param=where) from None
    kind = next((kind for magic, kind in _MAGIC if head.startswith(magic)), "image/png")
    return f"data:{kind};base64,{image}"
