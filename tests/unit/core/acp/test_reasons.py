"""The reason of a failure is found, wherever an agent puts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agh.core.acp.reasons import (
    MAX_TEXT,
    NO_REASON,
    cause_in,
    error_text,
    is_auth_failure,
    last_lines,
    says_no_model,
    says_no_network,
    says_no_package,
    says_not_installed,
    says_old_node,
)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, NO_REASON),
        ({}, NO_REASON),
        ("no rollout found", "no rollout found"),
        (
            {"details": "Claude Code process exited with code 1"},
            "Claude Code process exited with code 1",
        ),
        ({"error": {"message": "model not found"}}, "model not found"),
        ([{"cause": [{"Details": "deep"}]}], "deep"),
        ({"message": "Internal error"}, NO_REASON),
        (
            {"details": "bad key", "errorKind": "authentication_failed"},
            "bad key: authentication_failed",
        ),
        (
            {"authMethods": [{"id": "x", "description": "Log in"}], "details": "expired"},
            "expired",
        ),
        ({"authMethods": [{"id": "x", "description": "Log in"}]}, NO_REASON),
        ({"status": 503}, '{"status":503}'),
        (
            'API Error: 404 {"type":"error","error":{"type":"not_found_error","message":"model: x"}}',
            "API Error: 404: model: x (not_found_error)",
        ),
        ('{"error":{"message":"no such thing","code":7}}', "no such thing"),
        ("unexpected token {", "unexpected token {"),
        ('unexpected {"a": 1}', 'unexpected {"a": 1}'),
    ],
)
def test_the_reasons_in_the_data_are_part_of_the_text(data: Any, text: str) -> None:
    assert error_text({"code": -32603, "message": "Internal error", "data": data}) == text


def test_an_error_without_data() -> None:
    assert error_text({"code": 1, "message": "failed"}) == "failed"
    assert error_text({}) == "None"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": -32000, "message": "Authentication required"}, True),
        ({"code": -32603, "message": "x", "data": {"errorKind": "authentication_failed"}}, True),
        (
            {
                "code": -32603,
                "message": "Internal error",
                "data": {"details": "Invalid API key · Please run /login"},
            },
            True,
        ),
        ({"code": -32603, "message": "401 Unauthorized"}, True),
        ({"code": 400, "message": '{"error": {"message": "API key not valid."}}'}, True),
        ({"code": -31002, "message": "The acme credential was rejected. Update the API key."}, True),
        ({"code": -32603, "message": "the API keyboard is not valid"}, False),
        ({"code": -32603, "message": "Internal error", "data": {"details": "model not found"}}, False),
        ({"code": -32603, "message": "529 overloaded"}, False),
    ],
)
def test_a_refused_key(error: dict[str, Any], expected: bool) -> None:
    assert is_auth_failure(error) is expected


NODE = """node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/opt/agent/index.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at Module._load (node:internal/modules/cjs/loader:1051:27) {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v20.11.0
"""
NPM = """npm error code E404
npm error 404 Not Found - GET https://registry.npmjs.org/no-such-agent - Not found
npm error 404
npm error 404  'no-such-agent@*' is not in this registry.
npm error A complete log of this run can be found in: /home/me/.npm/_logs/1.log
"""
PYTHON = """Traceback (most recent call last):
  File "/usr/bin/vibe-acp", line 5, in <module>
    from vibe import main
ModuleNotFoundError: No module named 'vibe'
"""
OLD_NODE = """file:///opt/agent/index.js:3
import { a } from "b" with { type: "json" };
                      ^^^^
SyntaxError: Unexpected token 'with'
    at compileSourceTextModule (node:internal/modules/esm/utils:337:16)

Node.js v18.19.0
"""
PLAIN = "starting\nloading the settings\nerror: settings.json is invalid\nbye\n"
QUIET = "starting\nbye\n"


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (NODE, "Error: Cannot find module '/opt/agent/index.js'"),
        (NPM, "npm error 404 Not Found - GET https://registry.npmjs.org/no-such-agent - Not found"),
        (PYTHON, "ModuleNotFoundError: No module named 'vibe'"),
        (OLD_NODE, "SyntaxError: Unexpected token 'with'"),
        (PLAIN, "error: settings.json is invalid"),
        (QUIET, "bye"),
        ("", ""),
    ],
)
def test_the_cause_is_not_simply_the_last_line(output: str, cause: str) -> None:
    assert cause_in(last_lines(output)) == cause


def test_what_is_not_installed() -> None:
    assert all(says_not_installed(cause_in(last_lines(output))) for output in (NODE, PYTHON))
    assert says_no_package(cause_in(last_lines(NPM)))
    assert not says_not_installed("error: settings.json is invalid")


def test_only_the_last_lines_count() -> None:
    assert last_lines("\n".join(f"line {number}" for number in range(100)))[0] == "line 80"
    assert len(last_lines("x" * 10_000)[0]) == 300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(json_values, json_values)
def test_no_error_can_do_harm(message: Any, data: Any) -> None:
    text = error_text({"code": 1, "message": message, "data": data})
    assert len(text) <= MAX_TEXT
    is_auth_failure({"code": 1, "message": message, "data": data})


@pytest.mark.parametrize(
    ("says", "text", "expected"),
    [
        (says_no_package, "npm error 404 Not Found - GET https://registry.example/x", True),
        (says_no_package, "Because x was not found in the package registry and you require x", True),
        (says_no_package, "Error: ENOENT: no such file or directory", False),
        (says_old_node, "requires Node.js >= 22", True),
        (says_old_node, "SyntaxError: Unexpected token '||='\n    at x\n\nNode.js v14.21.3", True),
        (says_old_node, "SyntaxError: Unexpected end of JSON input", False),
        (says_no_network, "getaddrinfo ENOTFOUND api.example.com", True),
        (says_no_network, "fetch failed", True),
        (says_no_network, "the file was not found", False),
        (says_no_model, "model: fable-9 (not_found_error)", True),
        (says_no_model, "The model `fable` does not exist or you do not have access to it.", True),
        (says_no_model, "invalid model name", True),
        (says_no_model, "the model is overloaded", False),
    ],
)
def test_what_a_text_says(says: Callable[[str], bool], text: str, expected: bool) -> None:
    assert says(text) is expected


def test_a_line_that_calls_itself_the_cause() -> None:
    lines = ["error: No solution found", "  cause: Because x was not found"]
    assert cause_in(lines) == "Because x was not found"
