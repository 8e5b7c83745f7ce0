"""The owner's rules about a request: what is set, what is overruled, what is taken out."""

from typing import Any

import pytest

from blazar_gateway.request_rules import NO_RULES, RequestRules


def changed(rules: RequestRules, body: dict[str, Any], *, chat: bool = True) -> dict[str, Any]:
    fields = dict(body)
    rules.apply(fields, chat=chat)
    return fields


@pytest.mark.parametrize(
    ("rules", "body", "after"),
    [
        pytest.param({"default": {"top_k": 4}}, {}, {"top_k": 4}, id="default-fills"),
        pytest.param({"default": {"top_k": 4}}, {"top_k": None}, {"top_k": 4}, id="null-is-absent"),
        pytest.param({"default": {"top_k": 4}}, {"top_k": 9}, {"top_k": 9}, id="a-request-goes-before-a-default"),
        pytest.param({"default": {"temperature": 1}}, {"temperature": 0}, {"temperature": 0}, id="nought-is-a-wish"),
        pytest.param(
            {"default": {"max_tokens": 4}},
            {"max_completion_tokens": 9},
            {"max_completion_tokens": 9},
            id="a-limit-by-another-name",
        ),
        pytest.param({"force": {"top_k": 4}}, {"top_k": 9}, {"top_k": 4}, id="force-overrules"),
        pytest.param(
            {"force": {"max_tokens": 4}}, {"max_completion_tokens": 9}, {"max_tokens": 4}, id="force-by-all-names"
        ),
        pytest.param({"force": {"max_tokens": 4}}, {"n_predict": 9}, {"max_tokens": 4}, id="force-in-a-gap"),
        pytest.param({"strip": ("seed", "n")}, {"seed": 1, "n": 2, "user": "u"}, {"user": "u"}, id="strip-takes-out"),
        pytest.param({"strip": ("max_tokens",)}, {"max_completion_tokens": 3}, {}, id="strip-by-all-names"),
        pytest.param({"strip": ("tools",)}, {"functions": []}, {}, id="strip-the-older-word"),
        pytest.param(
            {"default": {"chat_template_kwargs": {"a": 1, "b": 2}}},
            {"chat_template_kwargs": {"a": 9}},
            {"chat_template_kwargs": {"a": 9, "b": 2}},
            id="arguments-fill-one-by-one",
        ),
        pytest.param(
            {"force": {"chat_template_kwargs": {"a": 1}}},
            {"chat_template_kwargs": {"a": 9, "c": 3}},
            {"chat_template_kwargs": {"a": 1, "c": 3}},
            id="arguments-overrule-one-by-one",
        ),
        pytest.param(
            {"force": {"reasoning_effort": "low"}},
            {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False, "reasoning_effort": "max"}},
            {"reasoning_effort": "low"},
            id="effort-overrules-what-the-template-is-told",
        ),
    ],
)
def test_rule_changes_a_chat(rules: dict[str, Any], body: dict[str, Any], after: dict[str, Any]) -> None:
    assert changed(RequestRules(**rules), body) == after


def test_text_completions_know_no_template_and_no_thoughts() -> None:
    rules = RequestRules(
        default={"reasoning_effort": "low", "chat_template_kwargs": {"a": 1}, "top_k": 3},
        force={"parallel_tool_calls": False, "seed": 1},
    )
    assert changed(rules, {}, chat=False) == {"top_k": 3, "seed": 1}


def test_the_clients_own_object_is_not_touched() -> None:
    arguments = {"a": 9}
    changed(RequestRules(force={"chat_template_kwargs": {"a": 1}}), {"chat_template_kwargs": arguments})
    assert arguments == {"a": 9}


@pytest.mark.parametrize(
    ("rules", "overruled"),
    [
        ({}, False),
        ({"strip": ("think",)}, True),
        ({"force": {"reasoning_effort": "low"}}, True),
        ({"force": {"chat_template_kwargs": {"enable_thinking": True}}}, True),
        ({"force": {"chat_template_kwargs": {"a": True}}}, False),
        ({"default": {"reasoning_effort": "low"}}, False),
    ],
)
def test_whether_a_wish_to_think_counts(rules: dict[str, Any], overruled: bool) -> None:
    assert RequestRules(**rules).overrule_thinking is overruled


def test_no_rules_change_nothing() -> None:
    assert not NO_RULES.change_requests
    assert RequestRules(decides_thinking=True).change_requests is False
    assert RequestRules(strip=("n",)).change_requests
