"""Do chat templates render as in transformers, and are they kept away from Python?"""

import pytest
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from splitpool_worker.text.chat_template import render

MESSAGES = [
    {"role": "system", "content": "Be <brief> & kind."},
    {"role": "user", "content": "Grüße"},
    {"role": "assistant", "content": "Hello."},
]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


@pytest.mark.parametrize(
    "template",
    [
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m['content'] }}{% endfor %}",
        "{% for m in messages %}\n  {{ m | tojson }}\n{% endfor %}",
        "{{ messages | tojson(indent=2, sort_keys=true) }}",
        "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}x{% endfor %}",
        "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}y{% endfor %}",
        "{% set ns = namespace(n=0, self=1) %}{% for m in messages %}"
        "{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{{ ns.self }}",
        "{% for m in messages %}{% generation %}\n{{ m.content }}{% endgeneration %}{% endfor %}",
        "{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }}",
        "{{ dict(a=1) | tojson }} {{ strftime_now('%Y') }}",
        "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | first }}",
    ],
)
def test_a_template_renders_as_in_transformers(template: str) -> None:
    theirs, _ = render_jinja_template(
        conversations=[[dict(each) for each in MESSAGES]],
        chat_template=template,
        add_generation_prompt=True,
        **SPECIAL,
    )
    assert render(template, MESSAGES, SPECIAL) == theirs[0]


def test_a_template_refuses_messages_in_its_own_words() -> None:
    with pytest.raises(TemplateError, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}", MESSAGES, SPECIAL)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ dict.__subclasses__() }}",
        "{% set ns = namespace(__class__=1) %}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{{ messages.append(1) }}",
        "{{ raise_exception.__globals__.json }}",
        "{{ range(10 ** 9) | list }}",
    ],
)
def test_a_template_cannot_reach_into_python(template: str) -> None:
    with pytest.raises((TemplateError, OverflowError)):
        render(template, MESSAGES, SPECIAL)
