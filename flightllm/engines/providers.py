"""The known OpenAI-compatible providers: one row for each provider, from the provider's documentation.

The ways in a row are tried in their order. The engine learns which of them an endpoint rejects or ignores, see
`openai.capabilities`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

_PLAIN = ("schema", "object", "words")
_UNKNOWN_CHOICE = ("structured", *_PLAIN)


@dataclass(frozen=True, slots=True)
class Provider:
    """One kind of endpoint.

    `hosts` are ends of host names, `ports` are default ports of local servers, and `owners` are values of `owned_by` in
    its list of models. `choice`, `json` and `regex` name the ways to express a constraint, the best first; see
    `openai.wire`. `thinking` names the way to switch thinking, see `thinking_steps`.
    """

    name: str
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()
    owners: tuple[str, ...] = ()
    base_url: str = ""
    key_env: str = ""
    choice: tuple[str, ...] = _UNKNOWN_CHOICE
    json: tuple[str, ...] = ("schema", "structured", "object", "words")
    regex: tuple[str, ...] = ("structured", "schema", "object", "words")
    thinking: str = "unknown"
    tokens_key: str = "max_tokens"
    key_header: str = ""
    """The header for the key in place of `Authorization`."""


UNKNOWN = Provider("unknown")
_STRICT = ("strict", "schema", "object", "words")


def _hosted(name: str, host: str, path: str, key_env: str, ways: tuple[str, ...] = _PLAIN, **more: str) -> Provider:
    return Provider(
        name,
        (host,),
        base_url=f"https://{host}{path}",
        key_env=key_env,
        choice=ways,
        json=ways,
        regex=ways,
        thinking=more.get("thinking", "effort"),
        tokens_key=more.get("tokens_key", "max_tokens"),
    )


OLLAMA = Provider(
    "ollama",
    ("ollama.com",),
    (11434,),
    ("library",),
    base_url="http://127.0.0.1:11434/v1",
    choice=_PLAIN,
    json=_PLAIN,
    regex=_PLAIN,
    thinking="effort",
)
PROVIDERS = (
    _hosted("openai", "api.openai.com", "/v1", "OPENAI_API_KEY", _STRICT, tokens_key="max_completion_tokens"),
    Provider(
        "azure",
        ("openai.azure.com", "cognitiveservices.azure.com", "services.ai.azure.com"),
        key_env="AZURE_OPENAI_API_KEY",
        choice=_STRICT,
        json=_STRICT,
        regex=_STRICT,
        thinking="effort",
        tokens_key="max_completion_tokens",
        key_header="api-key",
    ),
    Provider(
        "vllm",
        owners=("vllm",),
        choice=("structured", "guided", *_PLAIN),
        json=("schema", "structured", "guided", "object", "words"),
        regex=("structured", "guided", *_PLAIN),
        thinking="template",
    ),
    Provider(
        "sglang",
        ports=(30000,),
        owners=("sglang",),
        choice=("pattern", *_PLAIN),
        json=_PLAIN,
        regex=("pattern", *_PLAIN),
        thinking="template",
    ),
    OLLAMA,
    Provider(
        "llama.cpp",
        owners=("llamacpp",),
        choice=("grammar", *_PLAIN),
        json=_PLAIN,
        regex=_PLAIN,
        thinking="template",
    ),
    Provider(
        "lmstudio",
        ports=(1234,),
        owners=("organization_owner",),
        base_url="http://127.0.0.1:1234/v1",
        choice=_PLAIN,
        json=_PLAIN,
        regex=_PLAIN,
        thinking="effort",
    ),
    Provider(
        "tgi",
        ("endpoints.huggingface.cloud",),
        choice=("tgi_pattern", *_PLAIN),
        json=("schema", "tgi_object", "words"),
        regex=("tgi_pattern", *_PLAIN),
        thinking="none",
    ),
    _hosted("together", "api.together.xyz", "/v1", "TOGETHER_API_KEY", thinking="toggle"),
    _hosted("groq", "api.groq.com", "/openai/v1", "GROQ_API_KEY", _STRICT, tokens_key="max_completion_tokens"),
    _hosted("fireworks", "api.fireworks.ai", "/inference/v1", "FIREWORKS_API_KEY"),
    _hosted("openrouter", "openrouter.ai", "/api/v1", "OPENROUTER_API_KEY", _STRICT, thinking="openrouter"),
    _hosted("mistral", "api.mistral.ai", "/v1", "MISTRAL_API_KEY", _STRICT),
    _hosted("deepseek", "api.deepseek.com", "", "DEEPSEEK_API_KEY", ("object", "words"), thinking="anthropic"),
    _hosted("gemini", "generativelanguage.googleapis.com", "/v1beta/openai", "GEMINI_API_KEY"),
    _hosted("anthropic", "api.anthropic.com", "/v1", "ANTHROPIC_API_KEY", ("words",), thinking="anthropic"),
)
NAMES = tuple(one.name for one in PROVIDERS)

_THINKS = re.compile(
    r"(?:^|[/:\-])(?:o[134](?:-|$)|gpt-5|gpt-oss|qwen-?3(?!.*instruct)(?!-coder)(?!.*embed)|qwq|deepseek-(?:r1|reasoner)"
    r"|magistral|gemini-(?:2\.5|3)|grok-(?:3-mini|4)|glm-(?:4\.[5-9]|5|z1)|kimi-k2(?:\.\d)?-thinking|nemotron|phi-4-.*reasoning"
    r"|minimax-m|exaone-deep|seed-oss|hunyuan-a13b|smollm3|ernie-4\.5.*thinking)|-thinking(?:$|[-:])|-reasoning(?:$|[-:])",
    re.IGNORECASE,
)
ALLOWANCES = {"": 4_096, "minimal": 1_024, "low": 2_048, "medium": 4_096, "high": 8_192, "none": 0}
"""The tokens for thinking in addition to the answer, by effort; `""` is the endpoint's default effort.

Endpoints that accept a number of tokens get the same number. For local models, see `thinking.BUDGETS`.
"""


@dataclass(frozen=True, slots=True)
class ThinkingLevel:
    """One way to ask for a level of thinking: keys of the request, and the resulting effort."""

    body: tuple[tuple[str, object], ...]
    effort: str


def named(name: str) -> Provider | None:
    """Return the provider of this name, or None."""
    return next((one for one in PROVIDERS if one.name == name), None)


def provider_at(base_url: str) -> Provider:
    """Return the provider at an address; `UNKNOWN` if the address does not show it."""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return UNKNOWN
    for one in PROVIDERS:
        if any(host == end or host.endswith(f".{end}") for end in one.hosts) or (port and port in one.ports):
            return one
    return UNKNOWN


def provider_of(owners: Iterator[str]) -> Provider:
    """Return the provider by the values of `owned_by` in its list of models, or `UNKNOWN`."""
    found = set(owners)
    return next((one for one in PROVIDERS if found & set(one.owners)), UNKNOWN)


def thinks(model: str) -> bool:
    """Return whether a model of this name thinks before it answers by default."""
    return _THINKS.search(model) is not None


def thinking_steps(style: str, level: str, model: str) -> list[ThinkingLevel]:
    """Return the ways to ask for a level of thinking, the best first; the last step is empty.

    The level `off` means the least effort that the model accepts.
    """
    nothing = ThinkingLevel((), "")
    if style == "none":
        return [nothing]
    if "gpt-oss" in model.lower() and style in {"template", "unknown"}:
        style = "effort"  # the template of gpt-oss supports only efforts
    match style:
        case "effort" if level == "off":
            return [*map(_effort, _least(model)), nothing]
        case "effort":
            return [_effort(level), nothing]
        case "openrouter":
            efforts = ("none", "minimal", "low") if level == "off" else (level,)
            return [
                *(ThinkingLevel((("reasoning", {"effort": one, "exclude": True}),), one) for one in efforts),
                nothing,
            ]
        case "toggle" if level == "off":
            return [ThinkingLevel((("reasoning", {"enabled": False}),), "none"), _effort("low"), nothing]
        case "toggle":
            return [_effort(level), nothing]
        case "anthropic" if level == "off":
            return [ThinkingLevel((("thinking", {"type": "disabled"}),), "none"), nothing]
        case "anthropic":
            budget = ALLOWANCES[level]
            return [ThinkingLevel((("thinking", {"type": "enabled", "budget_tokens": budget}),), level), nothing]
        case _:
            # Local endpoints accept variables of the chat template; a template without these variables ignores them.
            on = level != "off"
            switches = {"enable_thinking": on, "thinking": on}
            effort = level if on else "none"
            return [
                ThinkingLevel((("chat_template_kwargs", switches),), effort),
                *([] if on else [_effort("low")]),
                nothing,
            ]


def _effort(effort: str) -> ThinkingLevel:
    return ThinkingLevel((("reasoning_effort", effort),), effort)


def _least(model: str) -> tuple[str, ...]:
    """Return the efforts to try for the least thinking, without those that the model is known to reject."""
    name = model.lower().rpartition("/")[2]
    if name.startswith(("o1", "o3", "o4")) or "gpt-oss" in name:
        return ("low",)
    if re.match(r"gpt-5(?!\.)", name):
        return ("minimal", "low")
    return ("none", "minimal", "low")
