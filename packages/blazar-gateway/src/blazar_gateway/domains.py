"""What a model row is for: a request at the wrong endpoint is told the right one, before anything is loaded."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import cast

from blazar_gateway.ports import ModelCard
from blazar_routing.errors import InvalidRequest


class Domain(StrEnum):
    """The kinds of work, by the capability that a row lists for it."""

    TEXT = "completion"
    EMBEDDING = "embedding"
    RERANK = "rerank"
    IMAGES = "image"
    TRANSCRIPTION = "transcription"
    SPEECH = "speech"


_KINDS: Mapping[Domain, tuple[str, str]] = {
    Domain.TEXT: ("a text model", "POST /v1/chat/completions"),
    Domain.EMBEDDING: ("an embedding model", "POST /v1/embeddings"),
    Domain.RERANK: ("a reranking model", "POST /v1/rerank"),
    Domain.IMAGES: ("an image model", "POST /v1/images/generations"),
    Domain.TRANSCRIPTION: ("a speech recognition model", "POST /v1/audio/transcriptions"),
    Domain.SPEECH: ("a voice", "POST /v1/audio/speech"),
}
_MAKE_VECTORS = frozenset({"llamacpp"})
"""Engine kinds that make vectors of a text model, on an instance of its own."""

_BY_ENGINE = {"sdcpp": Domain.IMAGES, "whisper": Domain.TRANSCRIPTION, "piper": Domain.SPEECH}


def domain_of(card: ModelCard) -> Domain:
    """Return what a row is for; a row that says nothing is a text model."""
    if card.engine in _BY_ENGINE:
        return _BY_ENGINE[card.engine]
    for domain in Domain:
        if domain.value in card.capabilities:
            return domain
    return Domain.TEXT


def check_domain(card: ModelCard, wanted: Domain) -> None:
    """Return if the row can do what an endpoint is for.

    Raises:
        InvalidRequest: It cannot; the text names the endpoint that it is for.
    """
    found = domain_of(card)
    if found is wanted:
        return
    kind, endpoint = _KINDS[found]
    needed, _ = _KINDS[wanted]
    raise InvalidRequest(
        f"model '{card.name}' is {kind}, and this endpoint needs {needed}. "
        f"Use {endpoint} for it, or name another model (GET /v1/models lists them).",
        param="model",
    )


def check_embeds(card: ModelCard) -> None:
    """Return if vectors can be had of the row: it is an embedder, or a text model whose engine can make them.

    Raises:
        InvalidRequest: They cannot; the text names the endpoint that it is for.
    """
    if domain_of(card) is not Domain.TEXT or card.engine not in _MAKE_VECTORS:
        check_domain(card, Domain.EMBEDDING)


def check_media(messages: object, card: ModelCard) -> bool:
    """Return whether the messages hold images, if the model can take them and they came with the request.

    Raises:
        InvalidRequest: The model is known to be blind (llama-server would answer 500, which clients repeat), or an
            image is an address: the engine would fetch it from wherever it points to, this machine's network included.
    """
    found = False
    if not isinstance(messages, list):
        return found
    for index, message in enumerate(cast("Sequence[Mapping[str, object]]", messages)):
        content = message.get("content")
        if type(content) is not list:
            continue
        for part in content:
            if part.get("type") == "image_url":
                found = True
                _check_image(part.get("image_url"), card, where=f"messages[{index}].content")
    return found


def _check_image(image: object, card: ModelCard, *, where: str) -> None:
    if card.capabilities and "vision" not in card.capabilities:
        raise InvalidRequest(
            f"{where} holds an image, and model '{card.name}' cannot see: it has no projector. "
            "Choose a model whose capabilities list `vision` (GET /v1/models), or register this one with its "
            "projector: `blazar models add MODEL.gguf --mmproj MMPROJ.gguf`.",
            param=where,
        )
    url = image.get("url") if isinstance(image, dict) else image
    if not (isinstance(url, str) and url.startswith("data:")):
        raise InvalidRequest(
            f"{where} holds an image by its address, and this server fetches nothing for a request. "
            "Send the image itself, as data:image/png;base64,….",
            param=where,
        )
