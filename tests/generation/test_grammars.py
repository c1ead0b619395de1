"""Texts that follow a schema or a grammar, from a model with drawn weights, which would never write one by itself.

Breaks when a text that is done is not valid, when one that is cut off could not have become valid, when a grammar that can't go on is not said
in words, or when texts beside a constrained one change.
"""

import json
import os
import re
import sys

import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, os.path.dirname(__file__))
import small_decoders  # noqa: E402
from test_serving import pytestmark, serving  # noqa: E402, F401


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("grammars") / "small.gguf"
    small_decoders.Decoder(store=small_decoders.as_q8_0, context=2048).write(path)
    with serving(path, "--context", 2048) as server:
        yield server


def is_valid(value, schema, root):
    """By the keywords that the schemas below have."""
    if "$ref" in schema:
        return is_valid(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "anyOf" in schema:
        return any(is_valid(value, each, root) for each in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
    kind = schema.get("type", "object")
    if not isinstance(value, kinds[kind]) or (kind in ("integer", "number") and isinstance(value, bool)):
        return False
    if kind == "object":
        known = schema.get("properties", {})
        return all(name in value for name in schema.get("required", [])) and all(is_valid(value[name], known[name], root) for name in value)
    if kind == "array":
        return schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1000) and all(is_valid(x, schema["items"], root) for x in value)
    return kind != "string" or schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 10**6)


SHORT = {"type": "string", "minLength": 1, "maxLength": 8}
SCHEMAS = [
    {"type": "object", "properties": {"name": SHORT, "age": {"type": "integer"}, "kind": {"enum": ["ant", "hen", 3, None]}}, "required": ["name", "kind"]},
    {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "boolean"}, SHORT]}, "minItems": 3, "maxItems": 6},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"properties": {"leaf": {"type": "boolean"}, "parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}},
                                                "required": ["leaf"]}}},
]  # fmt: skip


def ask(server, **body):
    status, answer = server.ask("/v1/completions", {"prompt": "the ant", "max_tokens": 600, "n": 8, "temperature": 1, "seed": 4, **body})
    assert status == 200, answer
    return [(choice["text"], choice["finish_reason"]) for choice in answer["choices"]]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_texts_are_valid_by_their_schema(server, schema):
    texts = ask(server, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    done = [text for text, reason in texts if reason == "stop"]
    assert len(done) >= 4 and len(set(done)) > 1
    for text in done:
        assert is_valid(json.loads(text), schema, schema), text


def test_any_object(server):
    """Of a text that is cut off, what is there is the beginning of an object."""
    for text, reason in ask(server, response_format={"type": "json_object"}):
        assert text.startswith("{")
        if reason == "stop":
            assert isinstance(json.loads(text), dict)
        else:
            with pytest.raises(json.JSONDecodeError) as error:
                json.loads(text)
            assert error.value.pos >= len(text) - 24 or "Unterminated" in str(error.value)


@pytest.mark.parametrize("grammar, pattern", [
    ('root ::= "the " ("ant" | "hen")', r"the (ant|hen)"),
    ('root ::= digit{3} "-" digit+ # a number\ndigit ::= [0-9]', r"\d{3}-\d+"),
    ('root ::= [^a-z\\n]{5} ("é" | "漢字")', r"[^a-z\n]{5}(é|漢字)"),
    ('root ::= item ("," item)*\nitem ::= "x"? [yz]', r"x?[yz](,x?[yz])*"),
])  # fmt: skip
def test_texts_follow_their_grammar(server, grammar, pattern):
    texts = ask(server, grammar=grammar)
    done = [text for text, reason in texts if reason == "stop"]
    assert done and all(re.fullmatch(pattern, text) for text in done), texts


def test_streams_and_chats_follow_theirs(server):
    events = list(server.stream("/v1/completions", {"prompt": "a", "grammar": 'root ::= "yes" | "no"', "max_tokens": 9}))
    assert "".join(event["choices"][0]["text"] for event in events) in ("yes", "no") and events[-1]["choices"][0]["finish_reason"] == "stop"


def test_company_is_not_constrained(server):
    plain = {"prompt": "the hen", "max_tokens": 40, "temperature": 0}
    alone = server.ask("/v1/completions", plain)[1]["choices"]
    stream = server.stream("/v1/completions", {"prompt": "a", "max_tokens": 500, "grammar": "root ::= [0-9]{400}"})
    first = next(stream)
    assert server.ask("/v1/completions", plain)[1]["choices"] == alone
    assert re.fullmatch("[0-9]{400}", "".join(event["choices"][0]["text"] for event in [first, *stream]))


@pytest.mark.parametrize("body, words", [
    ({"grammar": "root ::= root"}, "left recursion"), ({"grammar": 5}, "'grammar' is a text"), ({"grammar": "x"}, "the grammar, line 1"),
    ({"grammar": 'root ::= "a"', "response_format": {"type": "json_object"}}, "without a 'response_format'"),
    ({"response_format": 5}, "an object with a type"), ({"response_format": {"type": "xml"}}, "json_schema"),
    ({"response_format": {"type": "json_schema"}}, "with a 'schema'"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "number", "minimum": 1}}}}, "'minimum'"),
])  # fmt: skip
def test_what_cannot_be_followed(server, body, words):
    status, answer = server.ask("/v1/completions", {"prompt": "a", **body})
    assert status == 400 and words in answer["error"]["message"]


def test_what_ends_in_the_middle(server):
    """Too many states to go on: an error of that text, and the server goes on."""
    deep = {"prompt": "a", "max_tokens": 2000, "temperature": 0, "grammar": 'root ::= "(" root ")" | "("{1001}'}
    for texts in (1, 2):  # which share a grammar
        status, answer = server.ask("/v1/completions", deep | {"n": texts})
        assert status == 400 and "nested too deep" in answer["error"]["message"]
    server.awaits(cache_pages_held=0, texts_open=0)
