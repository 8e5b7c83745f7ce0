"""The document says what the code says: every route, and of every field what its check accepts."""

from typing import Any

import jsonschema_rs
import pytest

from blazar_gateway.app import all_routes
from blazar_gateway.dialects.openai.parameters import SCHEMAS, Check
from blazar_gateway.forms import anthropic, managing, ollama, openai
from blazar_gateway.forms.form import Form
from blazar_gateway.openapi.document import describe
from blazar_gateway.openapi.operations import OPERATIONS
from blazar_routing.errors import InvalidRequest

VALUES: tuple[Any, ...] = (
    True, False, 0, 1, -1, -2, 3, 1.0, 1.5, 2**31, "", "x", [], ["x"], ["x", 1], [1], [-1], [None], [{}], {}, {"a": 1},
)  # fmt: skip


def accepts(check: Check, value: Any) -> bool:
    try:
        check("field", value)
    except InvalidRequest:
        return False
    return True


@pytest.mark.parametrize("check", SCHEMAS, ids=lambda check: str(getattr(check, "__name__", check)))
def test_a_check_and_its_schema_accept_the_same(check: Check) -> None:
    validator = jsonschema_rs.validator_for(dict(SCHEMAS[check]))
    for value in VALUES:
        assert accepts(check, value) == validator.is_valid(value), value


def test_every_route_is_described_and_nothing_else() -> None:
    routes = {(method, path) for method, path, _ in all_routes()}
    assert routes == set(OPERATIONS)
    document = describe(all_routes(), version="0")
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == routes | {("HEAD", path) for method, path in routes if method == "GET"}


FORMS = [
    value for module in (anthropic, managing, ollama, openai) for value in vars(module).values()
    if isinstance(value, Form)
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.title)
def test_a_body_without_what_it_needs_is_no_such_body(form: Form) -> None:
    validator = jsonschema_rs.validator_for(form.schema())
    needed = {*form.required, *form.one_of[:1]}
    assert validator.is_valid({}) == (not needed)
    # What is not known passes, as clients send what other servers know.
    assert "additionalProperties" not in form.schema()


def test_a_field_of_the_wrong_type_is_named() -> None:
    with pytest.raises(InvalidRequest, match="temperature must be a number, not a string"):
        anthropic.MESSAGES.parse(b'{"temperature": "hot"}')
    assert anthropic.MESSAGES.parse(b'{"temperature": null, "new_field": 1}') == {"temperature": None, "new_field": 1}
