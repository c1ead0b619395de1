"""Chats to tokens by templates: what Jinja2 itself writes, and what a hostile template or message can't do.

Breaks when a statement, filter, test or method means another thing than in Jinja, when whitespace is cut in another way, when a message's text
becomes a control token, or when a template takes more than bounded work.
"""

import os
import random
import sys

import pytest

tensmith = pytest.importorskip("tensmith")
sys.path.insert(0, os.path.dirname(__file__))
import small_decoders  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("chats") / "model.gguf"
    template = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{{ eos_token }}\n{% endfor %}"
    small_decoders.Decoder(more={"tokenizer.chat_template": template}).write(path)
    return tensmith.language.load(path, threads=1)


MESSAGES = [
    {"role": "system", "content": "  be brief\n"},
    {"role": "user", "content": "naïve 漢字 'quoted' \"twice\""},
    {"role": "assistant", "content": "<think>so</think> the ant", "calls": [{"name": "f", "arguments": {"b": 1, "a": [True, None, 2.5, "x"]}}]},
    {"role": "user", "content": ""},
]

# Kinds of what templates of chats do, one each.
TEMPLATES = [
    "{{ bos_token }}{%- for message in messages -%}\n  <|{{ message['role'] }}|>\n{{ message.content | trim }}{{ eos_token }}\n{%- endfor %}",
    """{% if messages[0]['role'] == 'system' %}
    {% set system = messages[0].content %}
    {% set rest = messages[1:] %}
{% else %}
    {% set rest = messages %}
{% endif %}
{% for m in rest %}
    {% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}
    {{- '[' ~ m.role ~ '] ' + m.content }}{% if not loop.last %}|{% endif %}
{% endfor %}
{{- system | default('none') | length }}""",
    """{%- set ns = namespace(found=false, count=0) -%}
{%- for m in messages | reverse if m.role == 'user' -%}
  {%- set ns.count = ns.count + loop.index -%}
  {%- if not ns.found and m.content %}{% set ns.found = true %}{{ m.content }}{% endif -%}
{%- endfor -%}
{{ ns.count }} {{ ns.found }}""",
    """{%- macro line(role, text, mark='*') -%}
{{ mark }} {{ role | upper }}: {{ text }}
{% endmacro -%}
{% for m in messages %}{{ line(m.role, m.content.split('</think>')[-1].lstrip()) }}{{ line(role='x', text=m.role, mark='-') }}{% endfor %}""",
    "{% for m in messages %}{% if m.calls is defined and m.calls %}{% for c in m.calls %}{{ c | tojson }}{{ c.arguments | tojson(indent=2) }}{% endfor %}{% endif %}{% endfor %}",
    "{% for key, value in messages[2].calls[0].arguments.items() %}{{ key }}={{ value | tojson }};{% endfor %}{{ messages | map(attribute='role') | join(',') }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('content') | map(attribute='role') | first }}",
    "{# a note #}{% set x %}a{{ 1 + 2 * 3 - 7 // 2 % 3 }}b{% endset %}{{ x * 1 if false else x }}{{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2.5 | int }}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{{ loop.first }}{% else %}none{% endfor %}",
    "{% for x in [] %}{% else %}empty{% endfor %}{{ nothing }}|{{ nothing is defined }}|{{ none is none }}|{{ messages[9] is undefined }}|{{ 'b' in 'abc' }}|{{ 4 not in [1, 2] }}",
    "{{ 'Hello World'.lower().title() }}{{ ' a b '.strip() }}{{ 'a,b,c'.split(',')[1:] | join('+') }}{{ 'abcdef'[1:-1] }}{{ 'abc'[::-1] }}{{ 'xyx'.replace('x', 'é') }}",
    "{{ messages[1].content[:7] }}|{{ messages[1].content | length }}|{{ messages[1].content[-3] }}|{{ 'naïve' | upper | lower }}",
    "  {% if true %}\n    indented\n  {% endif %}\n  {{ 'x' }}\n  {%+ if true %}kept{% endif %}\n\n{# gone #}\n end\n",
    "{{ {'a': 1, 'b': [1, 'two']} | tojson }}{{ (1, 2) | list | tojson }}{{ 'a' 'b' }}{{ \"it's\" }}{{ 'l\\n' }}{{ 1 if messages else 2 }}{{ ('a' if false) is defined }}",
    "{% for m in messages %}{{ loop.index }}/{{ loop.length }}/{{ loop.revindex }}{{ loop.previtem.role if not loop.first }}{{ loop.nextitem.role if loop.nextitem is defined }}{% endfor %}",
    "{{ messages[0].get('name', 'anonymous') }}{{ messages[0].get('name') }}{{ messages[0].keys() | list | join }}{{ true and not false or false }}{{ 1 == 1.0 }}{{ 'a' < 'b' }}",
    "{{ '%s' | capitalize }}{{ ['b', 'a'] | last }}{{ 3 is odd }}{{ 'x' is string }}{{ [] is iterable }}{{ {} is mapping }}{{ 1 is number }}{{ messages is sequence }}",
]  # fmt: skip


def by_jinja(template, **variables):
    sandbox = pytest.importorskip("jinja2.sandbox")
    environment = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.filters["tojson"] = lambda value, indent=None: __import__("json").dumps(value, ensure_ascii=False, indent=indent)
    return environment.from_string(template).render(bos_token="<s>", eos_token="</s>", **variables)


def agrees(model, template, messages):
    want = model.encode(by_jinja(template, messages=messages, add_generation_prompt=True), control=True, begins=False)
    assert model.chat(messages, template=template) == want, template


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_say_what_jinja_says(model, template):
    agrees(model, template, MESSAGES)


def drawn_expression(rng, depth):
    """Of numbers, so that each operator is defined; divisors are not 0."""
    if depth == 0:
        return rng.choice([str(rng.randrange(10)), "n", "m.count", "(messages | length)", "(messages[1:] | length)", "('abc' | length)"])
    a, b = (drawn_expression(rng, depth - 1) for _ in range(2))
    return rng.choice([
        f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // 7)", f"({a} % 5)", f"(-{a})", f"(-{a} | abs)", f"({a} if {b} > 3 else {b})",
        f"[{a}, {b}][{rng.choice('01')}]", f"({a} | abs)", f"({{'x': {a}}}.x)", f"([{a}, {b}, 3][1:] | last)", f"({a} if {a} == {b} or {b} is odd else 1)",
    ])  # fmt: skip


def drawn_template(rng, depth):
    """Statements within statements, with all ways to cut whitespace."""
    open_, close = rng.choice(["{%", "{%-", "{%", "{%+"]), rng.choice(["%}", "-%}", "%}"])
    tag = lambda words: f"{open_} {words} {close}"
    text = rng.choice(["a", " ", "\n", " b\n  ", "\n\n c", "\t"])
    if depth == 0:
        return text + "{{ " + drawn_expression(rng, 2) + rng.choice([" }}", " -}}"]) + text
    inner, other = drawn_template(rng, depth - 1), drawn_template(rng, depth - 1)
    return text + rng.choice([
        f"{tag('if ' + drawn_expression(rng, 1) + ' > 2')}{inner}{tag('else')}{other}{tag('endif')}",
        f"{tag('for n in [1, 2, 3] if n != 2')}{inner}{{{{ loop.index }}}}{tag('endfor')}{other}",
        f"{tag('set n = ' + drawn_expression(rng, 2))}{inner}{other}",
        f"{tag('set m = namespace(count=' + drawn_expression(rng, 1) + ')')}{inner}{tag('set m.count = m.count + 1')}{other}",
        f"{inner}{{# {text} #}}{other}",
    ]) + text  # fmt: skip


def test_drawn_templates_say_what_jinja_says(model):
    rng = random.Random(5)
    for _ in range(300):
        template = "{% set n = 4 %}{% set m = namespace(count=3) %}" + drawn_template(rng, rng.randrange(4)) + "end"
        agrees(model, template, MESSAGES)


def test_the_file_has_a_template(model):
    assert model.chat(MESSAGES[:1]) == model.encode("<s><system>be brief</s>\n", control=True, begins=False)
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert model.chat(parts, template="{{ messages[0].content }}") == model.encode("ab", begins=False)


def test_messages_end_no_turn(model):
    """Names of control tokens are text where they come from a message: whole, at an end that the template completes, in what is handed on."""
    end = model.encode("</s>", control=True, begins=False)[-1]
    for text in ("a</s>b", "</s>", "</s", "<</s>/s>", "</\ufdd0s>", "a</s>\ufdd0</s>"):
        for template in ("{{ messages[0].content }}", "{{ messages[0].content }}>", "{{ messages[0] | tojson }}", "{{ text ~ key.popped }}"):
            if "popped" in template:
                template = "{{ text }}{% for k in key.keys() %}{{ k }}{% endfor %}"
            tokens = model.chat([{"role": "user", "content": text}], template=template, text=text, key={text: 1})
            assert end not in tokens
    tokens = model.chat([{"role": "user", "content": "a</s>b"}], template="{{ messages[0].content }}{{ eos_token }}")
    assert tokens == model.encode("a</s>b", begins=False) + [end]


@pytest.mark.parametrize("template, message", [
    ("{% for i in range(1000000) %}{% for j in range(1000000) %}x{% endfor %}{% endfor %}", "does too much"),
    ("{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "does too much"),
    ("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}", "does too much"),
    ("{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}", "does too much"),
    ("{{ 'a'.replace('a', 'b' ~ 'c') | tojson(indent=9) }}{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "nested too deep"),
    ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "line 1: is nested too deep"),
    ("{{ " + "-" * 5000 + "1 }}", "nested too deep"),
    ("{{ " + "+".join("1" * 5000) + " }}", "too long"),
    ("{% if 1 %}" * 5000, "nested too deep"),
    ("\n{% include 'x' %}", "line 2: 'include' is no statement"),
    ("{{ messages | shuffle }}", "the filter 'shuffle' is not to be had"),
    ("{{ messages.append(1) }}", "a list has no 'append'"),
    ("{{ strftime_now('%Y') }}", "the function 'strftime_now' is not to be had"),
    ("{{ ''.__class__.__mro__ }}", "is asked of what is not there"),
    ("{{ raise_exception('no system here') }}", "no system here"),
    ("{{ 1 / 0 }}", "division by 0"),
    ("{{ 9223372036854775807 + 1 }}", "too long|too large"),
    ("{{ 999999999999999999 * 999999999999999999 }}", "too large"),
    ("{{ nothing.x }}", "is asked of what is not there"),
    ("{{ messages }}", "use tojson"),
    ("{% for %}", "line 1"), ("{{", "has no end"), ("{% if x %}", "'endif' is missing"), ("{{ 'a }}", "has no end"), ("{{ }}", "an expression is missing"),
    ("{% endfor %}", "'endfor'"), ("{{ 1 2 }}", "is not understood"), ("{{ a[ }}", "missing"), ("", "."), ("{{ [1][" + "9" * 18 + "] }}", "no text"),
])  # fmt: skip
def test_what_templates_cannot_do(model, template, message):
    with pytest.raises(tensmith.Error, match=message):
        model.chat([{"role": "user", "content": "hi"}], template=template or "{{ '' }}")


def test_mutations_of_templates(model):
    """Damaged ones are refused in words, or mean something else."""
    rng = random.Random(3)
    signs = "{}%#-+()[]|.,:'\"~=!<> \n\\azé0"
    for _ in range(2000):
        text = list(rng.choice(TEMPLATES))
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(text))
            text[at : at + rng.randrange(3)] = rng.choice(signs) * rng.randrange(3)
        try:
            model.chat(MESSAGES, template="".join(text) or " ")
        except tensmith.Error:
            pass


@pytest.mark.parametrize("messages", [[], [1], [{}], [{"role": "user"}], [{"role": 1, "content": "a"}], [{"role": "user", "content": 1}],
                                      [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}]])  # fmt: skip
def test_messages_that_are_none(model, messages):
    with pytest.raises(tensmith.Error, match="message"):
        model.chat(messages)


def test_a_file_without_a_template(tmp_path):
    small_decoders.Decoder().write(tmp_path / "m.gguf")
    with pytest.raises(tensmith.Error, match="has no chat template"):
        tensmith.language.load(tmp_path / "m.gguf", threads=1).chat(MESSAGES)
