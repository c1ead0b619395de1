"""`tensmith serve`, asked over HTTP by Python's standard library.

Breaks when an answer is not the text that the model gives alone, when streams mix or lose pieces, when a client that leaves keeps its pages, or
when a request that is wrong, too large or too slow gets anything but an error with its status. Nothing here depends on how long a step takes.
"""

import base64
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import time

import numpy
import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, os.path.dirname(__file__))
import small_decoders  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TENSMITH_BUILD", ROOT / "build/dev"))
pytestmark = pytest.mark.skipif(not (BUILD / "lib/libtensmith_http.so").exists(), reason="libtensmith_http.so is not built (libcpp-httplib-dev)")

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
GREEDY = {"temperature": 0, "max_tokens": 24}
CHAT = [{"role": "user", "content": "the hen and the ant"}]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("serving") / "small.gguf"
    # No token ends a text, so that some are as long as they are asked for.
    more = {"tokenizer.chat_template": TEMPLATE, "tokenizer.ggml.eos_token_id": -1}
    small_decoders.Decoder(store=small_decoders.as_q8_0, context=65536, more=more).write(path)
    return path


@pytest.fixture(scope="module")
def model(path):
    return tensmith.language.load(path, threads=1, exact=True, context=1024)


class Server:
    def __init__(self, path, *options, environment={}):
        command = [BUILD / "bin/tensmith", "serve", path, "--port", "0", "--threads", "1", "--exact", *map(str, options)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        said = self.process.stderr.readline()
        assert "is served on http://127.0.0.1:" in said, said + self.process.stderr.read()
        self.port = int(said.split("127.0.0.1:")[1].split("/")[0])

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def ask(self, path, body=None, method=None, **headers):
        """(status, what the JSON says)"""
        connection = self.connect()
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body)
        connection.request(method or ("GET" if body is None else "POST"), path, data, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, json.loads(content) if answer.headers["Content-Type"] == "application/json" else content.decode()

    def stream(self, path, body):
        """The events' JSON, as they come."""
        connection = self.connect()
        connection.request("POST", path, json.dumps({**body, "stream": True}))
        answer = connection.getresponse()
        assert answer.status == 200 and answer.headers["Content-Type"] == "text/event-stream"
        with contextlib.closing(connection):
            for line in iter(answer.readline, b"data: [DONE]\n"):
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
                elif not line:
                    return

    def metrics(self):
        lines = [line.split() for line in self.ask("/metrics")[1].splitlines() if not line.startswith("#")]
        return {name.removeprefix("tensmith_"): int(value) for name, value in lines}

    def awaits(self, **wanted):
        """Until the metrics have come to these values."""
        end = time.monotonic() + 120
        while any((have := self.metrics())[name] != value for name, value in wanted.items()):
            assert time.monotonic() < end, have
            time.sleep(0.02)
        return have

    def raw(self, data, shuts=True):
        """What the server sends for these bytes, until it closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=300) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(data)
                if shuts:
                    connection.shutdown(socket.SHUT_WR)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    answer += piece
            return answer

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=120)
        return status, self.process.stderr.read()


@contextlib.contextmanager
def serving(*arguments, **others):
    server = Server(*arguments, **others)
    try:
        yield server
        assert server.end() == (0, "")
    finally:
        server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def server(path):
    with serving(path, "--context", 1024) as server:
        yield server


def prompts(count):
    rng = random.Random(count)
    words = "the hen and ant in den naïve 漢 x".split()
    return [" ".join(rng.choices(words, k=rng.randrange(1, 30))) for _ in range(count)]


# ---- Answers


def test_texts_are_those_of_the_model_alone(server, model):
    for prompt in prompts(5):
        status, answer = server.ask("/v1/completions", {"prompt": prompt, **GREEDY})
        assert status == 200 and answer["object"] == "text_completion" and answer["model"] == "small"
        assert answer["choices"] == [{"index": 0, "text": model.generate(prompt, tokens=24, temperature=0), "logprobs": None, "finish_reason": "length"}]
        tokens = len(model.encode(prompt))
        assert answer["usage"] == {"prompt_tokens": tokens, "completion_tokens": 24, "total_tokens": tokens + 24}
    both = server.ask("/v1/completions", {"prompt": ["the", model.encode("the")], **GREEDY})[1]["choices"]
    assert both[0]["text"] == both[1]["text"] and [choice["index"] for choice in both] == [0, 1]


def test_generate_gives_the_same(server, path):
    arguments = ["generate", path, "--prompt", "the ant", "-n", "24", "--temperature", "0", "--exact", "-q", "--context", "1024"]
    said = subprocess.run([BUILD / "bin/tensmith", *arguments], capture_output=True, timeout=300).stdout.decode("utf-8", "replace")
    assert said == server.ask("/v1/completions", {"prompt": "the ant", **GREEDY})[1]["choices"][0]["text"] + "\n"


def test_chats(server, model):
    want = model.generate(model.chat(CHAT), tokens=24, temperature=0)
    status, answer = server.ask("/v1/chat/completions", {"messages": CHAT, **GREEDY})
    assert status == 200 and answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": want}
    events = list(server.stream("/v1/chat/completions", {"messages": CHAT, **GREEDY, "stream_options": {"include_usage": True}}))
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events[:-1]) == want
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    assert events[-1]["choices"] == [] and events[-1]["usage"] == answer["usage"]


def test_eight_streams_at_a_time(server, model):
    """Each is whole, and has the text of its own prompt."""
    asked = prompts(8)

    def streamed(prompt):
        events = server.stream("/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 60})
        return "".join(event["choices"][0]["text"] for event in events)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        got = list(pool.map(streamed, asked))
    assert got == [model.generate(prompt, tokens=60, temperature=0) for prompt in asked]


def test_many_clients_come_together(server):
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        assert set(pool.map(lambda _: server.ask("/health")[0], range(512))) == {200}


def test_choices_are_drawn_by_seeds_that_follow(server):
    drawn = {"prompt": "the", "max_tokens": 12, "temperature": 1.5}
    together = server.ask("/v1/completions", {**drawn, "seed": 5, "n": 3})[1]["choices"]
    alone = [server.ask("/v1/completions", {**drawn, "seed": seed})[1]["choices"][0]["text"] for seed in (5, 6, 7)]
    assert [choice["text"] for choice in together] == alone and len(set(alone)) == 3


def test_stop_sequences(server, model):
    whole = model.generate("the ant", tokens=40, temperature=0)
    pairs = [whole[i : i + 2] for i in range(5, len(whole) - 1) if whole[i : i + 2].isascii()]
    stops = [pairs[-1], pairs[len(pairs) // 2]]
    want = whole[: min(whole.index(stop) for stop in stops)]
    body = {"prompt": "the ant", "temperature": 0, "max_tokens": 40, "stop": stops}
    choice = server.ask("/v1/completions", body)[1]["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == (want, "stop")
    events = list(server.stream("/v1/completions", body))
    assert "".join(event["choices"][0]["text"] for event in events) == want and events[-1]["choices"][0]["finish_reason"] == "stop"


def log_softmax(logits):
    logits = logits.astype(numpy.float64)
    return logits - logits.max() - numpy.log(numpy.exp(logits - logits.max()).sum())


def test_probabilities(server, model):
    """Breaks when they are those behind a temperature, a bias or a grammar, of another place, or when pieces of a stream lose some."""
    body = {"prompt": "the hen", "max_tokens": 9, "temperature": 1.3, "seed": 3, "logprobs": 4}
    body["logit_bias"] = {str(3 + byte): -100 for byte in range(128, 256)}  # so that each token is whole characters
    choice = server.ask("/v1/completions", body)[1]["choices"][0]
    told, known = choice["logprobs"], model.encode("the hen")
    assert len(told["tokens"]) == 9 and "".join(told["tokens"]) == choice["text"] and told["text_offset"] == [len("".join(told["tokens"][:i])) for i in range(9)]
    texts = [bytes([int(text[3:5], 16)]).decode("utf-8", "replace") if text.startswith("<0x") else text.replace("▁", " ") for text in small_decoders.TOKENS]
    for token, chance, likeliest in zip(told["tokens"], told["token_logprobs"], told["top_logprobs"]):
        want = log_softmax(model.logits(known))
        number = min((i for i, text in enumerate(texts) if text == token), key=lambda i: abs(want[i] - chance))
        assert abs(want[number] - chance) < 1e-4
        # Of tokens whose texts are alike, as parts of characters are, one is told here.
        assert all(numpy.abs(numpy.sort(want)[-4:] - each).min() < 1e-4 for each in likeliest.values())
        known.append(number)
    pieces = [event["choices"][0]["logprobs"] for event in server.stream("/v1/completions", body)]
    assert sum((piece["tokens"] for piece in pieces if piece), []) == told["tokens"]
    assert sum((piece["text_offset"] for piece in pieces if piece), []) == told["text_offset"]
    chat = {"messages": CHAT, "max_tokens": 4, "temperature": 0, "logprobs": True, "top_logprobs": 2}
    answer = server.ask("/v1/chat/completions", chat)[1]["choices"][0]
    content = answer["logprobs"]["content"]
    assert bytes(sum((each["bytes"] for each in content), [])).decode("utf-8", "replace") == answer["message"]["content"]
    for each in content:  # greedy: the likeliest itself
        assert each["top_logprobs"][0]["logprob"] == each["logprob"] and len(each["top_logprobs"]) == 2


def test_penalties_and_biases(server, model):
    """Breaks when tokens of the prompt are counted, a token's second time isn't, or a bias is added to another token."""
    known = model.encode("the hen the hen")
    prompt = len(known)
    for _ in range(12):
        logits = model.logits(known).astype(numpy.float64)
        for token in known[prompt:]:
            logits[token] -= 0.7
        logits[list(set(known[prompt:]))] -= 1.9
        known.append(int(logits.argmax()))
    body = {"prompt": "the hen the hen", "max_tokens": 12, "temperature": 0, "presence_penalty": 1.9, "frequency_penalty": 0.7}
    assert server.ask("/v1/completions", body)[1]["choices"][0]["text"] == model.decode(known[prompt:])
    body = {"prompt": "the", "max_tokens": 3, "temperature": 0, "logit_bias": {str(small_decoders.TOKENS.index("and")): 100}}
    assert server.ask("/v1/completions", body)[1]["choices"][0]["text"] == "andandand"


def test_embeddings(server, model):
    asked = prompts(3)
    want = model.batch().embed(asked)
    answer = server.ask("/v1/embeddings", {"input": asked, "encoding_format": "float"})[1]
    got = numpy.array([each["embedding"] for each in answer["data"]], numpy.float32)
    assert numpy.abs(got - want).max() < 1e-6
    packed = server.ask("/v1/embeddings", {"input": asked[0], "encoding_format": "base64"})[1]["data"][0]["embedding"]
    assert numpy.abs(numpy.frombuffer(base64.b64decode(packed), "<f4") - want[0]).max() < 1e-6
    # Where one of them can't be, none is left behind.
    assert server.ask("/v1/embeddings", {"input": [*asked, "x " * 2000]})[0] == 400
    server.awaits(cache_pages_held=0, texts_open=0)


def test_models_health_and_metrics(server):
    assert server.ask("/health") == (200, {"status": "ok"})
    models = server.ask("/v1/models")[1]
    assert models["object"] == "list" and [each["id"] for each in models["data"]] == ["small"]
    assert server.ask("/v1/models/small")[1] == models["data"][0]
    assert server.ask("/v1/models/other")[0] == 404
    before = server.metrics()
    server.ask("/v1/completions", {"prompt": "the", "max_tokens": 7, "temperature": 0})
    after = server.metrics()
    assert after["tokens_total"] == before["tokens_total"] + 7 and after["sequences_running"] == after["cache_pages_held"] == 0


def test_guesses_change_no_text(server, path):
    """By the model itself, whose greedy guesses are all right, and by what the text said before."""
    asked = [{"prompt": "the hen " * 9 + prompt, **GREEDY, "temperature": i % 2, "seed": i} for i, prompt in enumerate(prompts(6))]
    want = [server.ask("/v1/completions", body)[1]["choices"] for body in asked]
    for options in (["--lookup"], ["--draft", path, "--draft-tokens", 5]):
        with serving(path, "--context", 1024, *options) as guessing, concurrent.futures.ThreadPoolExecutor(6) as pool:
            got = list(pool.map(lambda body: guessing.ask("/v1/completions", body)[1]["choices"], asked))
            assert got == want
            metrics = guessing.metrics()
        assert 0 < metrics["tokens_drafted_total"] >= metrics["tokens_accepted_total"]
        assert options[0] == "--lookup" or metrics["tokens_accepted_total"] > 30


def test_the_client_of_openai(server, model):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
    assert [each.id for each in client.models.list()] == ["small"]
    assert client.completions.create(model="small", prompt="the", **GREEDY).choices[0].text == model.generate("the", tokens=24, temperature=0)
    want = model.generate(model.chat(CHAT), tokens=24, temperature=0)
    assert client.chat.completions.create(model="small", messages=CHAT, **GREEDY).choices[0].message.content == want
    pieces = client.chat.completions.create(model="small", messages=CHAT, stream=True, **GREEDY)
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == want
    vectors = client.embeddings.create(model="small", input=["the hen", "a"])
    assert numpy.abs(numpy.array([each.embedding for each in vectors.data]) - model.batch().embed(["the hen", "a"])).max() < 1e-6
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.completions.create(model="small", prompt="the", temperature=-1)
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


# ---- Who leaves, who waits, who is slow


LONG = {"prompt": "the", "temperature": 0, "max_tokens": 60000}


def test_who_leaves_frees_what_it_held(path):
    with serving(path, "--context", 65536, "--cache-tokens", 65536, "--queue", 2, "--client-seconds", 1) as server:
        # Of a whole answer, before it is there; as long as it is not, there is no place for two more.
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps(LONG))
        assert server.awaits(sequences_running=1)["cache_pages_held"] > 0
        assert server.ask("/v1/completions", {"prompt": ["a", "b"]})[0] == 429
        connection.close()
        server.awaits(cache_pages_held=0, sequences_running=0, texts_open=0, clients_left_total=1)
        # Of a stream, in its middle.
        stream = server.stream("/v1/completions", LONG)
        next(stream)
        stream.close()
        server.awaits(cache_pages_held=0, texts_open=0, clients_left_total=2)
        # One that doesn't read.
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", server.port))
            body = json.dumps({**LONG, "stream": True, "n": 2}).encode()
            slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            server.awaits(cache_pages_held=0, texts_open=0, clients_left_total=3)
        assert server.metrics()["tokens_total"] < 4 * 60000
        # Heads and bodies that are never whole.
        assert b" 408 " in server.raw(b"GET /health HTTP/1.1\r\nHost: ", shuts=False).splitlines()[0]
        assert b" 408 " in server.raw(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", shuts=False).splitlines()[0]
        assert server.ask("/v1/completions", {"prompt": "the", "max_tokens": 3})[0] == 200


def test_a_clean_end(path):
    """SIGTERM ends streams with an error that says so, and the program with 0."""
    server = Server(path, "--context", 65536)
    try:
        stream = server.stream("/v1/completions", LONG)
        assert next(stream)["choices"]
        server.process.send_signal(signal.SIGTERM)
        events = list(stream)
        assert server.process.wait(timeout=120) == 0 and server.process.stderr.read() == ""
        assert "the server ends" in events[-1]["error"]["message"]
        with pytest.raises(OSError):
            server.ask("/health")
    finally:
        server.process.kill()
        server.process.wait()


def test_the_key(path):
    with serving(path, "--context", 1024, environment={"TENSMITH_SERVE_KEY": "sesame"}) as server:
        for where in ("/v1/models", "/metrics", "/nowhere"):
            for headers in ({}, {"Authorization": "Bearer sesam"}, {"Authorization": "sesame"}, {"Authorization": "Bearer sesame2"}):
                status, answer = server.ask(where, **headers)
                assert status == 401 and answer["error"]["type"] == "authentication_error"
        assert server.ask("/v1/completions", {"prompt": "a"})[0] == 401
        # Before a body is read, which never comes.
        assert b" 401 " in server.raw(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n").split(b"\r\n")[0]
        assert server.ask("/v1/models", Authorization="Bearer sesame")[0] == 200 and server.ask("/health")[0] == 200


# ---- What is wrong


def post(body, head=b""):
    return b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n" + head + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("data, status", [
    (b"nonsense\r\n\r\n", 400), (b"GET\r\n\r\n", 400), (b"GET / HTTP/9.9\r\n\r\n", 400), (b"\r\n\r\n", 400), (b"\0" * 100 + b"\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20000 + b"\r\n", 431), (b"GET /" + b"x" * 70000, 431), (b"GET / HTTP/1.1\r\nA: " + b"x" * 70000, 431),
    (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n", 414),
    (post(b"{}" * 3000000), 413), (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
    (b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400), (b"POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"500000\r\n" + b" " * 0x500000, 413),
    (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}", 400),
    (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 3000000, 413),
    (b"POST /v1/completions HTTP/1.1\r\n\r\n", 411), (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{", 400),
    (post(b"x", b"Content-Type: multipart/form-data; boundary=x\r\n"), 415),
    (b"DELETE /v1/models HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405), (b"GET /v1/completions HTTP/1.1\r\n\r\n", 405), (b"POST /health HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405),
    (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404), (b"GET /%00%ff HTTP/1.1\r\n\r\n", 404), (b"OPTIONS / HTTP/1.1\r\n\r\n", 404),
    (b"PRI /x HTTP/1.1\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx", 400), (b"TRACE / HTTP/1.1\r\n\r\n", 400),
    (b"POST /%0a HTTP/1.1\r\nContent-Length: 1\r\n\r\nx", 400), (post(b"{}", b"Content-Encoding: br\r\n"), 400),
    (b"GET /health HTTP/1.1\r\nContent-Length: 30\r\n\r\nPOST /v1/models HTTP/1.1\r\n\r\n", 400), (post(b"{}", b"Content-Length: 1\r\n"), 400),
    (post(b"{}", b"Transfer-Encoding: chunked\r\n"), 400), (b"POST /v1/models HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
    (post(b""), 400), (post(b"{"), 400), (post(b"[]"), 400), (post(b"\xff\xfe"), 400), (post(b"null"), 400), (post(b'{"prompt": "\xff"}'), 400),
    (post(b"[" * 1000000), 400), (post(b'{"prompt":' * 300000), 400), (post(b'{"messages": ' + b"[" * 1000 + b"]" * 1000 + b"}"), 400),
    (post(b"{" + b",".join(b'"%d": 1' % i for i in range(100000)) + b"}"), 400),
])  # fmt: skip
def test_malformed_requests(server, data, status):
    """Its status, in words, as clients of the interface read them; and the server goes on."""
    head, _, body = server.raw(data).partition(b"\r\n\r\n")
    assert head.split(b" ", 2)[1] == str(status).encode(), head
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"} and len(error["message"].split()) > 2
    assert server.ask("/health")[0] == 200


@pytest.mark.parametrize("where, body, words", [
    ("completions", {}, "'prompt' is missing"), ("completions", {"prompt": 5}, "a text or a list"), ("completions", {"prompt": ""}, None),
    ("completions", {"prompt": []}, "no tokens"), ("completions", {"prompt": [[]]}, "no tokens"), ("completions", {"prompt": [1.5]}, "whole numbers"),
    ("completions", {"prompt": [10**9]}, "whole numbers"), ("completions", {"prompt": [-1]}, "whole numbers"), ("completions", {"prompt": [10**30]}, "whole numbers"),
    ("completions", {"prompt": ["a"] * 65}, "at most 64"), ("completions", {"prompt": "x" * 3000}, "context"), ("completions", {"prompt": "x" * 3000000}, "context"),
    *[("completions", {"prompt": "a", name: value}, name) for name, value in [
        ("temperature", -1), ("temperature", "hot"), ("top_p", "x"), ("n", 0), ("n", 1000), ("n", 1.5), ("max_tokens", -1), ("max_tokens", "x"),
        ("max_tokens", 10**20), ("stop", 5), ("stop", [""]), ("stop", ["a"] * 100), ("stream", "yes"), ("seed", "x"), ("logprobs", 21), ("logprobs", True), ("echo", True),
        ("suffix", "x"), ("logit_bias", {"x": 1}), ("logit_bias", {"5": 101}), ("logit_bias", {"-1": 1}), ("logit_bias", [5]), ("presence_penalty", 3),
        ("frequency_penalty", "x"), ("best_of", 3)]],
    ("chat/completions", {"messages": CHAT, "top_logprobs": 3}, "'logprobs' of true"), ("chat/completions", {"messages": CHAT, "logprobs": 3}, "true or false"),
    ("chat/completions", {}, "'messages' is missing"), ("chat/completions", {"messages": []}, "messages"), ("chat/completions", {"messages": [{}]}, "role"),
    ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "part"),
    ("chat/completions", {"messages": CHAT, "tools": [{}]}, "tools"), ("chat/completions", {"messages": CHAT, "chat_template_kwargs": 5}, "chat_template_kwargs"),
    ("embeddings", {}, "'input' is missing"), ("embeddings", {"input": "a", "dimensions": 5}, "dimensions"), ("embeddings", {"input": "a", "encoding_format": "int"}, "encoding_format"),
])  # fmt: skip
def test_requests_that_cannot_be(server, where, body, words):
    status, answer = server.ask("/v1/" + where, body)
    if words is None:  # the beginning's token alone
        assert status == 200
    else:
        assert status == 400 and words in answer["error"]["message"] and answer["error"]["type"] == "invalid_request_error"


def test_mutations_of_requests(server):
    """Damaged bytes get an answer of HTTP or a closed connection; the server goes on, and holds nothing."""
    rng = random.Random(11)
    good = post(json.dumps({"prompt": ["the hen", [5, 6]], "max_tokens": 3, "stream": True, "stop": ["x"], "n": 2}).encode(), b"Connection: close\r\n")
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 8)):
            at = rng.randrange(len(data))
            data[at : at + rng.randrange(4)] = rng.choice([bytes([rng.randrange(256)]), b"", b"\r\n", struct.pack("<I", rng.randrange(1 << 32)), b"9" * 20, b'"'])
        answer = server.raw(bytes(data))
        assert not answer or answer.startswith(b"HTTP/1.1 ")
    server.awaits(cache_pages_held=0, texts_open=0)
    assert server.ask("/v1/completions", {"prompt": "the", "max_tokens": 3})[0] == 200


def test_what_cannot_be_served(path, tmp_path):
    def refused(*arguments):
        done = subprocess.run([BUILD / "bin/tensmith", "serve", *map(str, arguments)], capture_output=True, text=True, timeout=300)
        return done.returncode, done.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        status, said = refused(path, "--port", taken.getsockname()[1])
    assert status == 1 and "can't listen on 127.0.0.1" in said
    assert "can't listen on 203.0.113.1" in refused(path, "--host", "203.0.113.1", "--port", 0)[1]
    assert "is no GGUF file" in refused(__file__)[1]
    assert refused(path, "--port", 70000)[0] == refused(path, "--sequences", 0)[0] == 2
