#!/usr/bin/env python3
"""Golden cases for the template tests: templates, contexts, and what transformers renders.

    golden_templates.py OUT.json [--model FILE.gguf] [--templates DIR]

Every template is compiled by transformers' own function. A case is a template's index, a context
and either `expected` or `fails`. Without options the built-in templates are written; --model adds
the template of a GGUF file, --templates all *.jinja of a folder (a census; not committed).
"""
import argparse
import copy
import json
import pathlib
import random

from transformers.utils.chat_template_utils import _compile_jinja_template

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a \"city\" <now>",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Which city"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                    "days": {"type": "integer"},
                },
                "required": ["city"],
            },
        },
    }
]
CALL = {
    "id": "call12345",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 3, "x": 1.5}},
}
WORDS = ["hello", "Grüße", "日本語", "  spaces  ", "\n\nline\n", "<|im_end|>", "{{ x }}", "🙂", "", "\u0000",
         "don't", 'say "x"', "<think>\nhm\n</think>\n\nanswer"]


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def conversations():
    """Message lists: plain ones from a seeded generator, then the special forms."""
    rng = random.Random(7)
    for n in range(1, 11):
        chat = [system(rng.choice(WORDS))] if n % 2 else []
        for i in range(n):
            text = " ".join(rng.choices(WORDS, k=rng.randrange(1, 5)))
            chat.append(assistant(text) if i % 2 else user(text))
        yield chat
    yield [assistant("first")]
    yield [user("a"), user("b")]
    yield [user([{"type": "text", "text": "part one"}, {"type": "text", "text": "two"}])]
    yield [user("weather?"), {"role": "assistant", "content": None, "tool_calls": [CALL]},
           {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "{\"t\": 20}"},
           assistant("It is 20.")]
    yield [system("s"), user("weather?"), {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]},
           {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "20"},
           {"role": "tool", "name": "get_weather", "tool_call_id": "call12345", "content": "21"}]
    yield [user("q"), {"role": "assistant", "content": "a", "reasoning_content": "why"}, user("more")]


def contexts():
    base = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    for i, chat in enumerate(conversations()):
        context = dict(base, messages=chat, add_generation_prompt=i % 3 != 1)
        yield context
        if i % 4 == 3 or i > 11:
            yield dict(context, tools=TOOLS)
        if i % 5 == 2:
            yield dict(context, enable_thinking=False, tools=None, documents=None)
        if i % 6 == 4:  # what firefunction's asks for
            yield dict(context, functions=json.dumps(TOOLS, ensure_ascii=False), datetime="2026-11-21 12:00:00 GMT")


# The language, feature by feature; each is rendered with SMALL.
SMALL = {
    "n": 7, "neg": -7, "pi": 3.25, "big": 1e17, "yes": True, "no": False, "nil": None, "s": "  Grüße, 日本 ",
    "word": "don't stop-now", "empty": "", "items": [3, 1, 2], "words": ["b", "A", "c", "a"],
    "d": {"k": "v", "a": [1, {"x": "ü\n\"<>&'\u007f\u0001🙂"}], "n": None, "t": True, "f": 0.1}, "nested": [[1, 2], [3]],
    "msgs": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}, {"role": "user"}],
}
FEATURES = r"""
{{ n }} {{ neg }} {{ pi }} {{ big }} {{ yes }} {{ nil }} {{ missing }}|
{{ n + 2 * 3 - 1 }} {{ n / 2 }} {{ neg // 2 }} {{ neg % 3 }} {{ 2 ** 10 }} {{ -n }} {{ 7.0 // 2 }} {{ 1e-7 }} {{ 5 % -3 }}
{{ 'a' + 'b' ~ 1 ~ nil ~ 2.0 }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ "a" 'b' }} {{ 1_000 }}
{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' < 'b' }} {{ n == 7.0 }} {{ nil == missing }} {{ n != 7 }} {{ [1,2] == [1,2] }} {{ yes == 1 }}
{{ 'a' in 'cat' }} {{ 'k' in d }} {{ 3 not in items }} {{ not 'x' in words }} {{ 1 in missing }} {{ not not n }}
{{ n and 'x' or 'y' }} {{ 0 or '' }} {{ nil and 1 }} {{ missing or 'dflt' }} {{ 'p' if n > 3 else 'q' }}{{ 'z' if no }}
{{ s[2] }}{{ s[-2] }}{{ s[2:5] }}|{{ s[::-1] }}|{{ s[-4:] }}|{{ s[:-3] }}|{{ items[-1] }}{{ items[::2] }}{{ items[5] }}{{ items[1:] }}{{ s[10:2:-2] }}
{{ s | trim }}|{{ s | upper }}|{{ s | lower }}|{{ word | title }}|{{ word.title() }}|{{ word | capitalize }}|{{ s | length }}
{{ d }} {{ nested }} {{ (1,) }} {{ (1, 'a') }} {{ "it's" | list }} {{ ["it's", 'a"b\'', '\n\t\x01é\u200b'] }} {{ [1.0, none, true, missing] }}
{{ d | tojson }} {{ d | tojson(indent=2) }} {{ d | tojson(ensure_ascii=true) }} {{ d | tojson(separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ [] | tojson(indent=4) }} {{ {} | tojson }}
{% for x in items %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% else %}none{% endfor %}{% for x in [] %}x{% else %}else{% endfor %}
{% for x in items if x > 1 %}{{ x }}{{ loop.length }}{% endfor %}{% for c in 'aé日' %}[{{ c }}]{% endfor %}{% for k in d %}{{ k }}{% endfor %}
{% for x in items %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}
{% set x = 1 %}{% for i in items %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(a=1, b='x') %}{% for i in items %}{% set ns.a = ns.a + i %}{% set ns.c = i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.zz is defined }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set cap %}<{{ n }}>{% endset %}{{ cap }}{% set up | upper %}abc{% endset %}{{ up }}
{% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=0, a=5) }}{{ m() }}{{ m(m(1)) | length }}
{% macro rec(k) %}{{ k }}{% if k > 0 %}{{ rec(k - 1) }}{% endif %}{% endmacro %}{{ rec(4) }}{% for q in [1] %}{% macro inner() %}{{ q }}{{ n }}{% endmacro %}{{ inner() }}{% endfor %}
{% macro outer() %}{{ q is defined }}{{ zz }}{% endmacro %}{% for q in [1] %}{{ outer() }}{% endfor %}{% set zz = 5 %}{{ outer() }}
{% macro box(t) %}<{{ t }}:{{ caller('z') }}>{% endmacro %}{% call(u) box('k') %}{{ u }}{{ n }}{% endcall %}
{% filter upper %}abc{{ word }}{% endfilter %}{% with a=1, b=n %}{{ a }}{{ b }}{% endwith %}{% generation %}gen{% endgeneration %}
{{ n is defined }}{{ missing is defined }}{{ missing is undefined }}{{ nil is none }}{{ s is string }}{{ d is mapping }}{{ items is iterable }}{{ s is iterable }}{{ n is iterable }}{{ items is sequence }}{{ d is sequence }}{{ n is number }}{{ yes is number }}{{ yes is boolean }}{{ n is integer }}{{ pi is float }}{{ yes is true }}{{ no is false }}{{ n is odd }}{{ n is even }}{{ n is divisibleby 7 }}{{ n is not none }}{{ 3 is eq 3 }}{{ 3 is in [3] }}{{ n is not defined }}{{ nil is defined and nil is not none }}
{{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a,b,c'.split(',', 1) }}{{ 'a,b,c'.rsplit(',', 1) }}{{ 'a,b,c'.split(',')[-1] }}{{ 'xxhixx'.strip('x') }}{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'a\nb\r\nc'.splitlines() }}
{{ word.startswith('don') }}{{ word.endswith(('x', 'now')) }}{{ word.upper() }}{{ 'aXbX'.replace('X', '--') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ 'ab' | replace('', '-') }}{{ 'é日'.replace('', '.') }}{{ word.find('stop') }}{{ 'aXa'.count('a') }}{{ '{} and {x} {{}}'.format(1, x='y') }}
{{ d.get('k') }}{{ d.get('zz') }}{{ d.get('zz', 'o') }}{{ d.keys() | list }}{{ d.values() | list | length }}{{ d['k'] }}{{ d.k }}{{ d.zz }}{{ d.a[1].x | length }}
{{ items | join(', ') }}{{ words | join }}{{ items | first }}{{ items | last }}{{ [] | first }}{{ missing | default('dd') }}{{ '' | default('e', true) }}{{ '' | default('e') }}{{ nil | d('x') }}
{{ msgs | map(attribute='role') | join(',') }}{{ msgs | map(attribute='content', default='-') | list }}{{ words | map('upper') | list }}{{ msgs | selectattr('role', 'equalto', 'user') | list | length }}{{ msgs | selectattr('content', 'defined') | list | length }}{{ msgs | rejectattr('content') | list }}{{ items | select('odd') | list }}{{ items | reject('gt', 2) | list }}
{{ items | sort }}{{ words | sort }}{{ words | sort(reverse=true) }}{{ msgs | sort(attribute='role') | map(attribute='role') | list }}{{ d | dictsort }}{{ words | unique | list }}{{ items | max }}{{ items | min }}{{ items | sum }}{{ items | reverse | list }}{{ 'abc' | reverse }}
{{ '42' | int }}{{ 'x' | int }}{{ '3.7' | int }}{{ 3.9 | int }}{{ '2.5' | float }}{{ -3 | abs }}{{ 2.5 | round }}{{ 2.567 | round(2) }}{{ n | string + 'x' }}{{ d.items() | list | length }}{{ d | items | list | length }}
{{ 'a\nb\n\nc' | indent }}{{ 'a\nb' | indent(2, true) }}{{ range(3) | list }}{{ range(5, 1, -2) | list }}{{ dict(a=1, b=2) }}{{ {'a': 1, 2: 'b'} }}
z{% if n == 7 %}A{% elif n == 8 %}B{% else %}C{% endif %}{% if n == 9 %}A{% elif n == 7 %}B{% else %}C{% endif %}{% if no %}A{% else %}C{% endif %}
{{ 'tab\tnl\\n \x41 \u00e9 \101 \q' }}{{ "a'b" }}{{ 'a"b' }}{{ {'a': {'b': 1}}['a']['b'] }}{{ {'x': '}}'}.x }}{{ '%}' }}
{{ '<b>' | safe + '<' }} {{ '<' + '&' | safe }} {{ ('<' | safe) ~ '<' + '"' }} {{ ('<' | safe).strip() + "'" }} {{ '<a&"' | e }} {{ '<' | escape | escape }} {{ ('<>' | e)[0:4] + '>' }} {{ ('ab' | safe).upper() + '<' }} {{ ('<' | safe) * 2 + '>' }} {{ ('<' | safe) == '<' }} {{ ('<,b' | safe).split(',')[0] + '<' }} {{ '<' | safe | upper + '<' }} {{ '' | safe + '<' }} {{ n | safe + '<' }} {{ ('<' | safe ~ '') + '<' }} {{ ['<' | safe, '<'] | join('>') + '<' }} {{ '<' | safe | trim + '<' }} {{ '<' | safe | replace('<', '>') + '<' }} {{ '<' | safe | title + '<' }} {{ '<' | safe | string + '<' }} {{ d | e }}
{{ loop is defined }}{% for x in [1] %}{% for y in [1, 2] %}{{ loop.index }}{% endfor %}{{ loop.index }}{{ loop.cycle('a', 'b') }}{% endfor %}
{% set n = n + 1 %}{{ n }}{{ true }}{{ True }}{{ None }}{{ 1, 2 }}{{ 'ß' | upper }}{{ nested[0][1] }}{{ nested.0.1 }}{{ (1, 2)[0] }}{{ 'ok' if missing is undefined else missing[1:] }}
"""
# White space around tags, which only shows over several lines.
SPACE = r"""
a {%- if true -%} b {%- endif %} c
  {% if true %}
  x
  {% endif %}
	 {% set y = 1 %}  tail
{{ n -}}   
   {{- n }}  {# comment #}
{# c #}
{% raw %}{{ not }} {% x %}{% endraw %}
  {%+ if true %} y{% endif +%}
"""
LINES = FEATURES.strip("\n").split("\n") + [SPACE, SPACE.replace("\n", "\r\n"), SPACE.replace("{%-", "{%+").replace("-%}", "+%}")]
FAILING = ["{{ missing.x }}", "{{ missing + 1 }}", "{{ 'a' + 1 }}", "{{ 1 < 'a' }}", "{{ nil.x.y }}", "{{ n() }}",
           "{% for x in n %}{% endfor %}", "{{ raise_exception('no') }}", "{{ range(1000000) }}", "{{ n | length }}",
           "{% if x %}", "{{ n", "{% endif %}", "{{ 'a' 1 }}", "{% for x in items %}{% endif %}", "{{ items.append(1) }}",
           "{% set d.x = 1 %}", "{{ 1 / 0 }}", "{% break %}", "{{ missing | tojson }}", "{{ m(1 }}", "{{ }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
           "{{ n | nofilter }}", "{% set a, b = [1] %}", "{{ n is notest }}", "{{ 'x' in n }}", "{{ d['a']['b']['c'] }}"]


def gguf_template(path):
    import gguf

    return gguf.GGUFReader(path).fields["tokenizer.chat_template"].contents()


def render(source, context):
    try:
        return {"expected": _compile_jinja_template(source).render(**copy.deepcopy(context))}
    except Exception as error:  # the kind is not compared, only that it fails
        return {"fails": f"{type(error).__name__}: {error}"[:120]}


def main():
    args = argparse.ArgumentParser()
    args.add_argument("out")
    args.add_argument("--model")
    args.add_argument("--templates")
    args = args.parse_args()
    templates, contexts_out, cases = [], [], []

    def add(name, source, every):
        templates.append({"name": name, "source": source})
        for context in every:
            if context not in contexts_out:
                contexts_out.append(context)
            cases.append({"template": len(templates) - 1, "context": contexts_out.index(context),
                          **render(source, context)})

    if args.templates:
        for path in sorted(pathlib.Path(args.templates).glob("*.jinja")):
            add(path.stem, path.read_text(), contexts())
    else:
        for i, line in enumerate(LINES):
            add(f"feature {i}", line, [SMALL])
        add("features", "\n".join(LINES) + "\n", [SMALL])
        for line in FAILING:
            add("failing", line, [SMALL])
        if args.model:
            add(pathlib.Path(args.model).stem, gguf_template(args.model), contexts())
    out = {"templates": templates, "contexts": contexts_out, "cases": cases}
    pathlib.Path(args.out).write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n")
    print(f"{len(cases)} cases, {sum('fails' in c for c in cases)} of them fail")


if __name__ == "__main__":
    main()
