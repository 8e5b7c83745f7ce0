"""Who may do what on which path. A test finds every route in exactly one of these."""

import re

FREE = frozenset({"/health", "/healthz"})
"""Answered without a key."""

METERED = frozenset(
    {
        "/v1/chat/completions",
        "/chat/completions",
        "/v1/completions",
        "/completions",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/responses",
        "/v1/responses/input_tokens",
        "/v1/embeddings",
        "/embeddings",
        "/v1/rerank",
        "/rerank",
        "/v1/reranking",
        "/reranking",
        "/v2/rerank",
        "/api/chat",
        "/api/generate",
        "/api/embed",
        "/api/embeddings",
        "/tokenize",
        "/detokenize",
        "/apply-template",
    }
)
"""Work for an engine: a key's concurrency, scope, rates and quota apply."""

READS = re.compile(
    r"/|/openapi\.json|/api/(?:version|tags|ps|show|usage)|(?:/v1)?/models(?:/.*)?|/v1/responses/(?!input_tokens$).+",
)
"""Open to every key; what they show is cut to its scope."""

MANAGING = re.compile(
    r"/metrics|/api/(?:keys|delete|copy|create|pull|push|blobs|explain|stop|daemon|logs|refresh|shutdown)(?:/.*)?"
)
"""For the owner and for keys scoped to nothing. On an open gateway everybody may manage models, and nobody keys."""

KEYS = re.compile(r"/api/keys(?:/.*)?")

_SLASHES = re.compile(r"/{2,}")


def plain_path(path: str) -> str:
    """Return the path without doubled slashes and without one at the end: the spelling that routes are known by."""
    if "//" in path:
        path = _SLASHES.sub("/", path)
    return path.rstrip("/") or "/" if path.endswith("/") else path
