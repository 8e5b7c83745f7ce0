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
    """Return whether the messages hold images or sounds, if the model can take them.

    Raises:
        InvalidRequest: The model is known to be blind or deaf (llama-server would answer 500, which clients repeat), or
            a part is malformed, or is a file, which nobody here reads.
    """
    found = False
    if not isinstance(messages, list):
        return found
    for message in cast("Sequence[Mapping[str, object]]", messages):
        content = message.get("content")
        for part in content if type(content) is list else ():
            match part.get("type"):
                case "image_url":
                    found = True
                    _check_can(card, "vision", "an image", "see: it has no projector")
                    image = part.get("image_url")
                    _check_image_address(image.get("url") if isinstance(image, dict) else image)
                case "input_audio":
                    found = True
                    _check_can(card, "audio", "a sound", "hear: it has no projector for it")
                    _check_audio(part.get("input_audio"))
                case "file":
                    raise InvalidRequest(
                        "the messages hold a file, which this server does not read: send its text as a text part.",
                        param="messages",
                    )
                case _:
                    pass  # text, or what the engine knows better
    return found


def _check_can(card: ModelCard, ability: str, what: str, lack: str) -> None:
    if card.capabilities and ability not in card.capabilities:
        raise InvalidRequest(
            f"the messages hold {what}, and model '{card.name}' cannot {lack}. "
            f"Choose a model whose capabilities list `{ability}` (GET /v1/models), or register this one with its "
            "projector: `blazar models add MODEL.gguf --mmproj MMPROJ.gguf`.",
            param="messages",
        )


def _check_image_address(url: object) -> None:
    if isinstance(url, str) and url.lower().startswith(("data:", "http://", "https://")):
        return
    raise InvalidRequest(
        "an image in the messages is neither data nor a web address: send data:image/png;base64,… or https://….",
        param="messages",
    )


def _check_audio(audio: object) -> None:
    match audio:
        case {"data": str(data), "format": "wav" | "mp3"} if data:
            return
        case _:
            raise InvalidRequest(
                'input_audio must be an object with base64 `data` and the `format` "wav" or "mp3".', param="messages"
            )
