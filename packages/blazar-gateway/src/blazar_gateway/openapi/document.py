"""The document itself, put together from the routes and their operations."""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from aiohttp import web

from blazar_gateway.error_responses import Dialect, dialect_of
from blazar_gateway.openapi.answers import ERRORS
from blazar_gateway.openapi.operations import OPERATIONS, UPLOAD, Operation

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Route = tuple[str, str, Handler]
"""Method, path with ``{names}``, and who answers."""

_JSON = "application/json"
_ERROR_NAMES = {Dialect.OPENAI: "OpenAIError", Dialect.ANTHROPIC: "AnthropicError", Dialect.OLLAMA: "OllamaError"}


def describe(routes: Iterable[Route], *, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of some routes.

    Args:
        routes: All of the application's; each is in :data:`OPERATIONS`.
        version: Of the API.
    """
    paths: dict[str, dict[str, Any]] = {}
    forms: dict[str, Any] = {}
    for method, path, _ in routes:
        operation = OPERATIONS[method, path]
        if operation.form is not None:
            forms[operation.form.title] = operation.form.schema()
        methods = paths.setdefault(path, {})
        methods[method.lower()] = _describe_one(method, path, operation)
        if method == "GET":
            methods["head"] = _describe_one("HEAD", path, operation)
    errors = {_ERROR_NAMES[dialect]: dict(schema) for dialect, schema in ERRORS.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Blazar",
            "version": version,
            "description": "Local models behind one address, for clients of OpenAI, Anthropic and Ollama.",
        },
        "paths": paths,
        "components": {
            "schemas": {**forms, **errors},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        # A gateway without keys asks for none.
        "security": [{}, {"key": []}],
    }


def _describe_one(method: str, path: str, operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": f"{method.lower()} {path}",
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": _responses(method, path, operation),
    }
    if parameters := _parameters(path, operation):
        described["parameters"] = parameters
    if operation.form is not None:
        schema = {"$ref": f"#/components/schemas/{operation.form.title}"}
        described["requestBody"] = {"required": True, "content": {_JSON: {"schema": schema}}}
    if operation.uploads:
        described["requestBody"] = {"required": True, "content": {UPLOAD: {"schema": {}}}}
    return described


def _parameters(path: str, operation: Operation) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"\{(\w+)\}", path)
    ]
    in_query = [{"name": name, "in": "query", "schema": dict(schema)} for name, schema in operation.query.items()]
    return in_path + in_query


def _responses(method: str, path: str, operation: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, content in operation.answers.items():
        responses[str(status)] = {"description": "Done."}
        if content and method != "HEAD":
            responses[str(status)]["content"] = {kind: {"schema": dict(schema)} for kind, schema in content.items()}
    refusal: dict[str, Any] = {"description": "Refused; the text says why and what to change."}
    if method != "HEAD":
        refusal["content"] = {_JSON: {"schema": _refusal(path)}}
    return {**responses, "default": refusal}


def _refusal(path: str) -> dict[str, Any]:
    """Return the envelope that a path's refusals have; on ``/v1/models`` a header may ask for Anthropic's."""
    dialects = {dialect_of(path, {}), dialect_of(path, {"anthropic-version": "2023-06-01"})}
    refs = [{"$ref": f"#/components/schemas/{_ERROR_NAMES[dialect]}"} for dialect in sorted(dialects)]
    return refs[0] if len(refs) == 1 else {"anyOf": refs}
