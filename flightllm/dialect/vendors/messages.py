"""Rewrite chat messages, a list of objects with a role and a content, as one prompt."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.calls import Given, VendorCall
from flightllm.dialect.vendors.objects import Value, constant, elements, members
from flightllm.dialect.vendors.options import without_references
from flightllm.functions.base import Entries, Literal
from flightllm.functions.labels import read_json
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
_LINE = "jsonb_build_array(jsonb_build_object('role', 'user', 'content', text))"
_FORM = "each message must be an object {'role': 'user', 'content': a text}; its role can be system, user or assistant"
_ROLES: Mapping[str, str] = MappingProxyType({"user": "User", "assistant": "Assistant", "model": "Assistant"})
_SYSTEM = ("system", "developer")
_LISTS_ONLY = (
    *("ai.openai_chat_complete", "ai.ollama_chat_complete", "ai.anthropic_generate", "ai.litellm_chat_complete"),
    "azure_openai.create_chat_completion",
)
"""The functions whose messages are always a list: JSON in another value would be the prompt itself."""


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
    if given is not None and (texts := _constants(call, given)):
        return _of_texts(call, given, texts)
    listed = None if given is None else elements(call.source, given.first, given.last)
    found = [members(call.source, one.first, one.last) for one in listed or ()]
    if given is None or not found or all(one is None for one in found):
        if given is not None and name in _LISTS_ONLY:
            raise call.error(f"its messages must be in the call: write {_LINE}")
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


def _constants(call: VendorCall, given: Given) -> list[Literal]:
    """Return the messages of JSON text, or of a list of such texts; an empty list for other values."""
    text = constant(call.source, given.first, given.last)
    whole = read_json(text) if isinstance(text, str) and text.lstrip().startswith("[") else None
    if isinstance(whole, tuple):
        return list(whole) if any(isinstance(one, Entries) for one in whole) else []
    listed = elements(call.source, given.first, given.last) or ()
    values = [constant(call.source, one.first, one.last) for one in listed]
    read = [read_json(one) if isinstance(one, str) else one for one in values]
    if not any(isinstance(one, str) for one in values) or not any(isinstance(one, Entries) for one in read):
        return []
    if not all(isinstance(one, Entries) for one in read):
        raise call.error(f"its messages must all have one spelling: write {_LINE}")
    return read


def _of_texts(call: VendorCall, given: Given, texts: list[Literal]) -> tuple[list[Edit], str]:
    """Return the edit that makes a prompt of constant messages, and the option for what the system's messages say."""
    said, told = list[tuple[str, str]](), list[str]()
    for one in texts:
        found = {key.lower(): value for key, value in one.items} if isinstance(one, Entries) else {}
        role, content = found.get("role"), found.get("content")
        role = role.lower() if isinstance(role, str) else ""
        if role not in {*_ROLES, *_SYSTEM} or not isinstance(content, str) or set(found) - {"role", "content"}:
            raise call.error(_FORM)
        if role in _SYSTEM:
            told.append(content)
        else:
            said.append((_ROLES[role], content))
    if not said:
        raise call.error("a message with the role 'user' is missing")
    prompt = said[0][1] if len(said) == 1 else "\n\n".join(f"{role}: {content}" for role, content in said)
    tokens = call.source.tokens
    edit = Edit(tokens[given.first].start, tokens[given.last - 1].end, f"('' || {text_literal(prompt)})")
    return [edit], f"instructions => {text_literal(without_references(chr(10).join(told)))}" if told else ""


def _message(call: VendorCall, message: list[Value] | None) -> tuple[str, Value]:
    keyed = {one.key.lower(): one for one in message or ()}
    role = constant(call.source, keyed["role"].first, keyed["role"].last) if "role" in keyed else None
    role = role.lower() if isinstance(role, str) else ""
    if "content" not in keyed or set(keyed) - {"role", "content"} or role not in {*_ROLES, *_SYSTEM}:
        raise call.error(_FORM)
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
