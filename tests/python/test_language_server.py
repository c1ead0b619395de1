"""tensmith-lsp, as an editor talks to it: messages with their places, types, names, layout; and the grammar that colours.

What would break these: a place that is off by one, a message that is not framed, a request that is left without an
answer, a grammar that lacks one of the language's words.
"""

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev")) / "bin/tensmith-lsp"

needs_server = pytest.mark.skipif(not SERVER.exists(), reason="the language server is not built")


class Client:
    def __init__(self):
        self.process = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.number = 0

    def write(self, body):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self):
        length = int(re.match(rb"Content-Length: (\d+)", self.process.stdout.readline())[1])
        assert self.process.stdout.readline() == b"\r\n"
        return json.loads(self.process.stdout.read(length))

    def notify(self, method, params=None):
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}).encode())

    def request(self, method, params=None):
        self.number += 1
        body = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params or {}}
        self.write(json.dumps(body).encode())
        reply = self.read()
        assert reply["id"] == self.number
        return reply

    def open(self, text, uri="file:///tmp/program.tsm"):
        """The diagnostics."""
        document = {"uri": uri, "languageId": "tensmith", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        return self.read()["params"]["diagnostics"]

    def at(self, method, line=0, character=0):
        document = {"uri": "file:///tmp/program.tsm"}
        position = {"line": line, "character": character}
        return self.request(f"textDocument/{method}", {"textDocument": document, "position": position})["result"]


@pytest.fixture
def client():
    started = Client()
    yield started
    started.process.kill()
    started.process.wait()


PROGRAM = "fn twice(v) = v + v\n\nfn main(x: f32[n, 3]) = {\n  let y = twice(x);\n  softmax(y, axis = 1)\n}\n"


@needs_server
def test_a_session(client):
    capabilities = client.request("initialize")["result"]["capabilities"]
    assert capabilities["hoverProvider"] and capabilities["documentFormattingProvider"]
    client.notify("initialized")
    assert client.open(PROGRAM) == []
    hover = lambda line, character: (client.at("hover", line, character) or {}).get("contents", {}).get("value")
    assert hover(3, 6) == "y: f32[n, 3]"
    assert hover(3, 16) == "x: f32[n, 3]"
    assert hover(4, 10) == "y: f32[n, 3]"
    assert hover(3, 12) == "twice: (f32[n, 3]) -> f32[n, 3]"
    assert hover(0, 5) == "twice: (_) -> _"
    assert hover(4, 4).startswith("softmax(x, axis =): ")
    assert hover(2, 0) is None
    labels = {item["label"]: item["detail"] for item in client.at("completion")}
    assert {"twice", "main", "Cons", "List", "matmul", "match", "fold"} <= set(labels)
    assert labels["main"] == "main: (f32[n, 3]) -> f32[n, 3]"
    assert client.request("shutdown")["result"] is None
    client.notify("exit")
    assert client.process.wait(timeout=60) == 0


@needs_server
def test_messages_as_it_is_written(client):
    told = client.open("fn main(x: f32[3]) = x +\n")
    assert [one["message"] for one in told] == ["expected an expression, found the end of the file"]
    told = client.open("fn main(x: f32[3]) = x + name\n")
    assert told[0]["range"] == {"start": {"line": 0, "character": 25}, "end": {"line": 0, "character": 29}}
    change = {"textDocument": {"uri": "file:///tmp/program.tsm"}, "contentChanges": [{"text": PROGRAM.replace(" + v", "+v")}]}
    client.notify("textDocument/didChange", change)
    assert client.read()["params"]["diagnostics"] == []
    assert client.at("formatting")[0]["newText"] == PROGRAM


@needs_server
def test_files_that_are_imported(client, tmp_path):
    (tmp_path / "layers.tsm").write_text("fn halved(x) = x / 2.0\n")
    text = 'import "layers.tsm"\n\nfn main(x: f32[n]) = halved(x)\n'
    assert client.open(text, f"file://{tmp_path}/program.tsm") == []
    (tmp_path / "layers.tsm").write_text("fn halved(x) =\n  x / two\n")
    told = client.open(text, f"file://{tmp_path}/program.tsm")
    assert told[0]["range"] == {"start": {"line": 0, "character": 7}, "end": {"line": 0, "character": 17}}
    assert told[0]["message"].endswith("layers.tsm:2:7: there is nothing with the name 'two'")


@needs_server
def test_schedules_of_comprehensions(client):
    """Breaks if a line that is refused is not told at its words, or the primitives are not named where one is written."""
    text = "def f(float(M, K) A) -> (C) {\n  C(m) +=! A(m, k)\n  # schedule: split m 4 -> m0 m1\n  # schedule: parallel k\n}\n"
    told = client.open(text, "file:///tmp/program.tc")
    assert [one["message"].split(";")[0] for one in told] == ["parallel k: loop 'k' can't be parallel: it carries the accumulation of 'C' within 'update'"]
    assert told[0]["range"] == {"start": {"line": 3, "character": 14}, "end": {"line": 3, "character": 24}}
    assert client.open(text.replace("parallel k", "parallel m0"), "file:///tmp/program.tc") == []
    told = client.open(text.replace("parallel k", "paralel m0"), "file:///tmp/program.tc")
    assert told[0]["message"].startswith("there is no primitive 'paralel'; there are split, ")
    told = client.open("# schedule: parallel m\n" + text, "file:///tmp/program.tc")
    assert told[0]["range"]["start"] == {"line": 0, "character": 0} and "belongs to no statement" in told[0]["message"]
    whole = "def f(float(M, K) A) -> (D) {\n  # schedule: parallel m_D_update\n  # schedule: parallel k\n  C(m) +=! A(m, k)\n  D(m) = C(m)\n}\n"
    told = client.open(whole, "file:///tmp/program.tc")
    assert told[0]["range"]["start"]["line"] == 2 and "the accumulation of 'C' within 'C_update'" in told[0]["message"]
    assert client.open(whole.replace("parallel k", "inline C_update"), "file:///tmp/program.tc")[0]["message"].startswith("inline C_update: there is no tensor")
    client.open("# schedule: parallel m\n" + text, "file:///tmp/program.tc")
    complete = lambda line: {
        item["label"]: item["detail"]
        for item in client.request(
            "textDocument/completion", {"textDocument": {"uri": "file:///tmp/program.tc"}, "position": {"line": line, "character": 14}}
        )["result"]
    }
    assert complete(4)["split"] == "split i 6 -> i0 i1" and "def" not in complete(4)
    assert "def" in complete(2) and "split" not in complete(2)


@needs_server
def test_what_is_no_request_is_told(client):
    client.write(b"{")
    assert client.read()["error"]["code"] == -32700
    assert client.request("textDocument/unheardOf")["error"]["code"] == -32601
    assert client.request("textDocument/hover", {})["error"]["code"] == -32602
    assert client.at("hover") is None  # nothing is open
    client.process.stdin.close()
    assert client.process.wait(timeout=60) == 1


def test_the_grammar_has_the_languages_words():
    grammar = json.loads((ROOT / "tools/tensmith-lsp/tensmith.tmLanguage.json").read_text())
    for pattern in grammar["patterns"]:
        re.compile(pattern["match"])
    words = {word for pattern in grammar["patterns"] for word in re.findall(r"[a-z]\w+", pattern["match"])}
    parser = (ROOT / "frontends/text/Parser.cpp").read_text()
    keywords = re.findall(r'"(\w+)"', re.search(r"kKeywords = \{(.*?)\};", parser, re.DOTALL)[1])
    types = re.findall(r'"(\w+)"', re.search(r"names = \{(.*?)\};", parser, re.DOTALL)[1])
    assert len(keywords) > 8 and len(types) > 10
    assert set(keywords) | set(types) <= words
