"""Embeddings and reranking: vectors and scores made from the text's checksum, so that equal texts get equal answers."""

import base64
import math
import struct
import zlib
from typing import Any

from blazar_stubs.llama_server.bodies import read_object, required
from blazar_stubs.llama_server.exchange import Exchange
from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.prompts import Refusal, ServerFault
from blazar_stubs.llama_server.server import Server
from blazar_stubs.llama_server.tokenizer import tokenize


async def embed_openai(server: Server, exchange: Exchange) -> None:
    """``/v1/embeddings``; a body with ``content`` instead of ``input`` gets the engine's own format."""
    _must_embed(server)
    if server.loaded.pooling == "none":
        raise Refusal("Pooling type 'none' is not OAI compatible. Please use a different pooling type")
    body = read_object(exchange)
    rows = await _rows(server, body)
    if "input" not in body:
        await exchange.json(200, _native(rows))
        return
    packed = body.get("encoding_format") == "base64"
    data: list[Json] = []
    for index, (_, vectors) in enumerate(rows):
        vector = vectors[0]
        row: Json = {"embedding": _base64(vector) if packed else vector, "index": index, "object": "embedding"}
        data.append({**row, "encoding_format": "base64"} if packed else row)
    used = sum(count for count, _ in rows)
    name = body.get("model") or server.settings.model_name
    usage = {"prompt_tokens": used, "total_tokens": used}
    await exchange.json(200, {"model": name, "object": "list", "usage": usage, "data": data})


async def embed_native(server: Server, exchange: Exchange) -> None:
    """``/embedding`` and ``/embeddings``."""
    _must_embed(server)
    await exchange.json(200, _native(await _rows(server, read_object(exchange))))


def _must_embed(server: Server) -> None:
    if not server.settings.embeddings:
        raise Refusal(
            "This server does not support embeddings. Start it with `--embeddings`",
            status=501,
            kind="not_supported_error",
        )


def _native(rows: list[tuple[int, list[list[float]]]]) -> list[Json]:
    return [{"index": index, "embedding": vectors} for index, (_, vectors) in enumerate(rows)]


async def _rows(server: Server, body: Json) -> list[tuple[int, list[list[float]]]]:
    """Token count and vectors of each input: one vector when pooled, one a token when not."""
    inputs = _inputs(body)
    engine = server.loaded.engine
    await engine.touch()
    rows: list[tuple[int, list[list[float]]]] = []
    for tokens in inputs:
        if not tokens:
            raise Refusal("Input content cannot be empty")
        (slot,) = await engine.acquire(1, tokens, -1)
        engine.counters.prompt(len(tokens), 0.0)
        width = server.loaded.shape.embedding
        if server.loaded.pooling == "none":
            rows.append((len(tokens), [_vector(repr(token), width) for token in tokens]))
        else:
            rows.append((len(tokens), [_vector(repr(tokens), width)]))
        engine.release(slot)
    return rows


def _inputs(body: Json) -> list[list[int]]:
    if "input" not in body and "content" not in body:
        raise Refusal('"input" or "content" must be provided')
    value: Any = body["input"] if "input" in body else body["content"]
    form = body.get("encoding_format")
    if form is not None and form not in {"float", "base64"}:
        raise Refusal("The format to return the embeddings in. Can be either float or base64")
    match value:
        case str():
            return [tokenize(value)]
        case []:
            raise ServerFault('"prompt" must not be empty')
        case list() if all(isinstance(part, int) for part in value):
            return [value]
        case list():
            return [tokenize(part) if isinstance(part, str) else list(part) for part in value]
        case _:
            raise ServerFault('"prompt" must be a string or a list')


def _vector(text: str, width: int) -> list[float]:
    """A unit vector; single precision, as the engine's are."""
    # crc32 is linear, hence the multiplication; hashlib would do better, but takes longer to import than to start.
    seed = zlib.crc32(text.encode("utf-8", "replace"))
    numbers = [((seed + index) * 2654435761 % 2**32) / 2**31 - 1.0 for index in range(width)]
    length = math.sqrt(sum(number * number for number in numbers)) or 1.0
    return list(struct.unpack(f"<{width}f", struct.pack(f"<{width}f", *(number / length for number in numbers))))


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


async def rerank(server: Server, exchange: Exchange) -> None:
    """``/v1/rerank``, in Jina's format, or TEI's when the documents are called ``texts``."""
    if not server.settings.embeddings or server.loaded.pooling != "rank":
        raise Refusal(
            "This server does not support reranking. Start it with `--reranking`",
            status=501,
            kind="not_supported_error",
        )
    body = read_object(exchange)
    if "query" not in body:
        raise Refusal('"query" must be provided')
    query = required(body, "query", Refusal)
    if not isinstance(query, str):
        raise Refusal('"query" must be a string')
    documents = body.get("documents") or body.get("texts") or []
    if not documents:
        raise Refusal('"documents" must be a non-empty string array')
    engine = server.loaded.engine
    await engine.touch()
    tei = "texts" in body
    label = "score" if tei else "relevance_score"
    results: list[Json] = []
    used = 0
    for index, document in enumerate(documents):
        used += len(tokenize(query)) + len(tokenize(document)) + 2
        row: Json = {"index": index, label: _score(query, document)}
        results.append({**row, "text": document} if tei and body.get("return_text") else row)
    results.sort(key=lambda row: -row[label])
    results = results[: body.get("top_n", len(results))]
    if tei:
        await exchange.json(200, results)
        return
    name = body.get("model") or server.settings.model_name
    usage = {"prompt_tokens": used, "total_tokens": used}
    await exchange.json(200, {"model": name, "object": "list", "usage": usage, "results": results})


def _score(query: str, document: str) -> float:
    """Shared words count; a checksum breaks ties."""
    shared = len(set(query.lower().split()) & set(document.lower().split()))
    return shared - 1.0 + zlib.crc32(document.encode("utf-8", "replace")) % 256 / 1000.0
