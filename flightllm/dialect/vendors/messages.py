"""Rewrite chat messages, a list of objects with a role and a content, as one prompt."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import Given, VendorCall
from flightllm.dialect.vendors.objects import Value, constant, elements, members
from flightllm.dialect.vendors.options import without_references
from flightllm.sql.literals import text_literal

PLACES: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("ai_complete", "cortex.complete", "cortex.try_complete", "ai_query"), 1),
        **dict.fromkeys(("ai.openai_chat_complete", "ai.ollama_chat_complete", "ai.anthropic_generate"), 1),
        **dict.fromkeys(("ai.litellm_chat_complete", "ai.cohere_chat_complete"), 1),
        "azure_openai.create_chat_completion": 1,
    }
)
"""For each function, the position of its messages."""
_ROLES: Mapping[str, str] = MappingProxyType({"user": "User", "assistant": "Assistant", "model": "Assistant"})
_SYSTEM = ("system", "developer")


def messages(call: VendorCall, name: str) -> tuple[list[Edit], str]:
    """Return the edits that make a prompt of a call's messages, and the option for what the system's messages say.

    `[{'role': 'system', 'content': 'Be brief'}, {'role': 'user', 'content': a}]` becomes `a`, with `instructions`. With
    several messages of users and assistants, each begins with its role.

    Raises:
        SqlError: a message has another form.
    """
    place = PLACES.get(name)
    given = None if place is None else call.named("messages", "prompt", "request", "prompt_or_history")
    given = given or (None if place is None else call.positional(place))
    listed = None if given is None else elements(call.source, given.first, given.last)
    found = [members(call.source, one.first, one.last) for one in listed or ()]
    if given is None or not found or all(one is None for one in found):
        return [], ""
    said, told = list[tuple[str, Value]](), list[str]()
    for one in found:
        role, content = _message(call, one)
        if role not in _SYSTEM:
            said.append((_ROLES[role], content))
        elif isinstance(text := constant(call.source, content.first, content.last), str):
            told.append(text)
        else:
            said.append(("System", content))
    if not said:
        raise call.error("a message with the role 'user' is missing")
    system = f"instructions => {text_literal(without_references(chr(10).join(told)))}" if told else ""
    return list(_prompt(call, given, said)), system


def _message(call: VendorCall, message: list[Value] | None) -> tuple[str, Value]:
    keyed = {one.key.lower(): one for one in message or ()}
    role = constant(call.source, keyed["role"].first, keyed["role"].last) if "role" in keyed else None
    role = role.lower() if isinstance(role, str) else ""
    if "content" not in keyed or set(keyed) - {"role", "content"} or role not in {*_ROLES, *_SYSTEM}:
        raise call.error(
            "each message must be an object {'role': 'user', 'content': a text}; its role can be system, user or"
            " assistant"
        )
    content = keyed["content"]
    if members(call.source, content.first, content.last) or elements(call.source, content.first, content.last):
        raise call.error("the content of a message must be a text: no function here reads files or images")
    return role, content


def _prompt(call: VendorCall, given: Given, said: list[tuple[str, Value]]) -> Iterator[Edit]:
    """Join the contents, which stay where they are."""
    tokens = call.source.tokens
    if len(said) == 1:
        content = said[0][1]
        opened, closed = ("('' || (", "))") if given.name is not None else ("", "")  # a word by name names a prompt
        yield Edit(tokens[given.first].start, tokens[content.first].start, opened)
        yield Edit(tokens[content.last - 1].end, tokens[given.last - 1].end, closed)
        return
    start, text, last = tokens[given.first].start, "(", ""
    for role, content in said:
        label = f"{text_literal(role + ': ')} || "
        opened, closed = ("", "") if content.last - content.first == 1 else ("(", ")")
        yield Edit(start, tokens[content.first].start, f"{text}{label}{opened}")
        start, text = tokens[content.last - 1].end, f"{closed} || '\n\n' || "
        last = closed
    yield Edit(start, tokens[given.last - 1].end, f"{last})")
