"""Answer `ai_topic`: find topics in a sample of the texts, assign one to each text, and look again at the others.

The sample has the texts with the lowest hashes, so neither the order of the rows nor a few new rows change it much.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from flightllm.errors import InternalError
from flightllm.functions.call import AICall
from flightllm.operators.sets.asker import Asker, Reply
from flightllm.operators.sets.base import Failure, SetValues
from flightllm.operators.sets.late_questions import choosing, excerpts, filled
from flightllm.operators.sets.one_text import texts_of
from flightllm.operators.sets.room import fitting

_SAMPLED, _CHARACTERS = 60, 240
"""The texts of a sample, and the characters of each that the model reads, where its context has room for them."""
_KEPT_BACK: Final = 4
"""One topic of this number is kept for the texts that do not fit the first topics."""
_TURNS: Final = 2


def answers(values: SetValues, asker: Asker) -> Sequence[Any]:
    """Return the topic of each text."""
    over = asker.call.over
    if over is None:
        raise InternalError("ai_topic is a call over a set")
    k, other = int(over.option("k")), str(over.option("other"))
    texts = texts_of(values)
    found: list[Any] = [other] * len(texts)
    open_places = list(range(len(texts)))
    topics: list[str] = []
    told = []
    for turn in range(_TURNS):
        wanted = k - k // _KEPT_BACK if turn == 0 else k - len(topics)
        if wanted < 1 or not open_places:
            break
        reply = _proposal([texts[place] for place in open_places], wanted, topics, over.questions["propose"], asker)
        new = _labels(reply, wanted, [*topics, other])
        if not new and not topics:
            why = reply.error or "the model proposed no topic"
            return [Failure(f"the texts have no topics: {why}")] * len(texts)
        if not new:
            break
        question = choosing(over.questions["label"], new, other)
        replies = asker.ask(question, [(texts[place],) for place in open_places])
        for place, answer in zip(open_places, replies, strict=True):
            found[place] = Failure(answer.error) if answer.error is not None else answer.value
        told.append(f"{len(new)} topics from a sample, {len(open_places):,} texts assigned")
        topics += new
        open_places = [place for place in open_places if found[place] == other]
    asker.counters.note(0, 0, steps=f"{'; then '.join(told)}; {len(open_places):,} texts fit no topic")
    return found


def _proposal(texts: Sequence[str], wanted: int, known: Sequence[str], propose: AICall, asker: Asker) -> Reply:
    """Ask for topics of a sample; the texts come in the order of their hashes."""
    question = filled(propose, str(wanted))
    end = f"\n\nThese topics are known, and fit none of the texts: {', '.join(known)}" if known else ""
    sample = excerpts(texts, _SAMPLED, _CHARACTERS, fitting(question, asker.binding(question), end))
    (reply,) = asker.ask(question, [(sample + end,)])
    return reply


def _labels(reply: Reply, wanted: int, taken: Iterable[str]) -> list[str]:
    """Return the topics of an answer without those that are taken; of a predicted one, topics of usual length."""
    if reply.predicted:
        first = len(list(taken))
        return [f"predicted topic {number}" for number in range(first, first + wanted)]
    proposed = reply.value["topics"] if isinstance(reply.value, dict) else []
    known = {label.casefold() for label in taken}
    found: list[str] = []
    for one in proposed or ():
        label = " ".join(str(one or "").split()).strip(" .\"'-*")
        if label and label.casefold() not in known:
            known.add(label.casefold())
            found.append(label)
    return found[:wanted]
