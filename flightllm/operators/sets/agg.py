"""Aggregates over a model: a tree for each group, whose calls are made level by level for all groups at once.

A leaf has as many texts as fit into a prompt, and gives notes. Notes are combined until one call can write the result
from them. A group that fits into one prompt takes one call.

All cuts are made by content. So the order of rows changes no prompt, and a new or deleted row changes its own leaf and
the notes above it. All other answers come from the answer cache.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from flightllm.engines.extras import extras_of
from flightllm.errors import InvalidInputError
from flightllm.functions.aggregated import COMBINE, EXTRACT, LEAST_CONTEXT, ONE, WRITE
from flightllm.functions.call import AICall
from flightllm.functions.group_texts import is_group
from flightllm.operators.sets.agg_tree import Node, Prompt, Tree, middle
from flightllm.operators.sets.asker import Asker, Reply
from flightllm.operators.sets.base import Failure, SetValues
from flightllm.operators.sets.citations import Note, Sentence, cited, has_numbers
from flightllm.operators.sets.cuts import rank, runs
from flightllm.operators.sets.group import SEPARATOR, Group, Item, leaf_text
from flightllm.operators.sets.room import Room, room_of

_LIKELY_NOTE: Final = "word " * 100
"""Stands for a predicted note, so that the predicted prompts above it have about the right size."""
_LEVELS_OF_PARTS: Final = 5
"""How often a prompt can have been cut in two for its parts to be known at once."""
_UNCITED: Final = (
    "no sentence of the answer has the number of a row: leave out citations, or name a model that follows instructions"
)


def answers(values: SetValues, asker: Asker) -> Sequence[Any]:
    """Return the answer for each group.

    Raises:
        InvalidInputError: the model's context is too small, or no query has collected the texts.
        AnswerError: a call failed, and the query must fail then.
        UnansweredError: a deferred statement gets the answers in a later pass.
    """
    return _Aggregate(asker).of([str(texts[0]) for texts in values.tuples])


class _Aggregate:
    def __init__(self, asker: Asker) -> None:
        over = asker.call.over
        self._asker = asker
        self._citing = over is not None and over.option("citing")
        first = next(iter(over.questions.values())) if over is not None else asker.call
        binding = asker.binding(first)
        self._count = binding.engine.count_tokens
        self._counts = extras_of(binding.engine).has_tokenizer
        """Whether no prompt can be too long, because all tokens are counted."""
        self._room: Room = room_of(asker.call, binding)
        self._drawn = {name for name, one in self._room.questions.items() if self._has_earlier_answers(one)}
        """In a dry run, the questions whose predicted answers are drawn from earlier ones."""

    def of(self, texts: Sequence[str]) -> list[Any]:
        most = min(self._room.leaf, self._room.whole)
        if not all(map(is_group, texts)):
            raise InvalidInputError(
                f"{self._asker.call.text}: an aggregate over a model works in a query only: write it in SELECT,"
                " and not in a function or a client's plan"
            )
        trees = [Tree(Group(text, most, self._count)) for text in texts]
        self._ask([prompt for tree in trees for prompt in self._first(tree, most)])
        self._note(trees)
        while left := [tree for tree in trees if not tree.done]:
            self._ask([prompt for tree in left for prompt in self._above(tree)])
        self._note(trees)
        return [tree.answer for tree in trees]

    def _first(self, tree: Tree, most: int) -> list[Prompt]:
        """Return the prompts about texts: all of a group, or those of its leaves."""
        group = tree.group
        if group.tokens <= most:
            return [self._about(tree, ONE, group.items)]
        leaves = group.leaves(most)
        tree.leaves = len(leaves)
        return [self._about(tree, EXTRACT, leaf) for leaf in leaves]

    def _about(self, tree: Tree, question: str, items: Sequence[Item]) -> Prompt:
        rows = {number: item.row for number, item in enumerate(items, start=1)}
        return Prompt(tree, question, leaf_text(items, numbered=self._citing), rows, items)

    def _above(self, tree: Tree) -> list[Prompt]:
        """Return the prompts about the notes of a tree's highest level, which they replace by the next level."""
        nodes, tree.nodes = tree.nodes, []
        if failed := [node.note for node in nodes if isinstance(node.note, Failure)]:
            tree.done = True
            many = f" ({len(failed):,} of the {len(nodes):,} parts of the group)" if len(nodes) > 1 else ""
            tree.answer = Failure(f"{failed[0].error}{many}")
            return []
        if self._citing and not any(isinstance(node.note, Note) and node.note.rows for node in nodes):
            tree.done, tree.answer = True, Failure(_UNCITED)  # a call about no notes can cite no row
            return []
        tree.levels += 1
        if len(nodes) <= self._room.last:
            return [self._merging(tree, WRITE, nodes)]
        ranks = [rank(node.content, tree.levels) for node in nodes]
        cut = [nodes[run.start : run.stop] for run in runs([1] * len(nodes), ranks, self._room.notes)]
        return [self._merging(tree, COMBINE, some) for some in cut]

    def _merging(self, tree: Tree, question: str, nodes: Sequence[Node]) -> Prompt:
        notes = [node.note for node in nodes if isinstance(node.note, Note)]
        cited_rows = dict.fromkeys(row for note in notes for row in note.rows)
        numbers = {row: number for number, row in enumerate(cited_rows, start=1)}
        shown = [text for note in notes if (text := note.shown(numbers))]
        rows = {number: row for row, number in numbers.items()}
        return Prompt(tree, question, SEPARATOR.join(shown), rows, nodes)

    def _ask(self, prompts: Sequence[Prompt]) -> None:
        """Ask prompts, and give each tree its result or its next nodes, in the order of the prompts.

        An endpoint can count more tokens than we do. A prompt that is too long for it is asked in two parts.
        """
        if not self._counts:
            known = self._known_parts(prompts, _LEVELS_OF_PARTS)
            prompts = [one for own, some in zip(prompts, known, strict=True) for one in self._instead(own, some or [])]
        found = list(zip(prompts, self._replies(prompts), strict=True))
        while parts := [self._in_parts(prompt) if reply and reply.too_long else [] for prompt, reply in found]:
            new = [prompt for some in parts for prompt in some]
            if not new:
                break
            answered, before = iter(list(zip(new, self._replies(new), strict=True))), found
            found = []
            for (prompt, reply), some in zip(before, parts, strict=True):
                self._instead(prompt, some)
                found += list(islice(answered, len(some))) or [(prompt, reply)]
                prompt.tree.calls += bool(some)
        for prompt, reply in found:
            self._take(prompt, reply)

    def _replies(self, prompts: Sequence[Prompt]) -> list[Reply | None]:
        """Return the reply to each prompt; None where there is nothing to ask about."""
        replies: list[Reply | None] = [None] * len(prompts)
        places = {
            name: [at for at, one in enumerate(prompts) if one.question == name and (one.text or name == WRITE)]
            for name in self._room.questions
        }
        places = {name: some for name, some in places.items() if some}
        asked = [
            (self._room.questions[name], [(prompts[at].text or "nothing",) for at in some])
            for name, some in places.items()
        ]
        for some, answered in zip(places.values(), self._asker.ask_each(asked, spares_too_long=True), strict=True):
            for at, reply in zip(some, answered, strict=True):
                replies[at] = reply
        return replies

    def _known_parts(self, prompts: Sequence[Prompt], levels: int) -> list[list[Prompt] | None]:
        """Return the prompts about the parts of each prompt whose answers are known; None where one is not known.

        An endpoint that refused a prompt refuses it again. So a rerun asks neither it nor its parts.
        """
        own, known = list(prompts), [False] * len(prompts)
        for name, question in self._room.questions.items():
            places = [at for at, one in enumerate(own) if one.question == name and one.text]
            for at, there in zip(places, self._asker.known(question, [(own[at].text,) for at in places]), strict=True):
                known[at] = there
        parts = [[] if there or not levels else self._in_parts(one) for one, there in zip(own, known, strict=True)]
        below = iter(self._known_parts([one for some in parts for one in some], levels - 1) if any(parts) else [])
        found: list[list[Prompt] | None] = []
        for one, there, some in zip(own, known, parts, strict=True):
            lower = [next(below) for _ in some]
            whole = [part for each in lower if each is not None for part in each]
            found.append([one] if there else whole if some and None not in lower else None)
        return found

    def _instead(self, prompt: Prompt, parts: Sequence[Prompt]) -> Sequence[Prompt]:
        """Return the prompts that are asked in place of one, and count the leaves of its tree."""
        if len(parts) > 1 and prompt.question in {ONE, EXTRACT}:
            prompt.tree.leaves += len(parts) - (prompt.tree.leaves > 0)
        return parts or [prompt]

    def _in_parts(self, prompt: Prompt) -> list[Prompt]:
        """Return two prompts about the parts of one, cut by content; none if it is as short as can be."""
        tree = prompt.tree
        items = [one for one in prompt.parts if isinstance(one, Item)]
        nodes = [one for one in prompt.parts if isinstance(one, Node)]
        if items:
            if not (cut := middle([item.rank for item in items], 1)):
                return []
            return [self._about(tree, EXTRACT, half) for half in (items[:cut], items[cut:])]
        cut = middle([rank(node.content, tree.levels) for node in nodes], 2)  # a call about one note brings nothing
        return [self._merging(tree, COMBINE, half) for half in (nodes[:cut], nodes[cut:])] if cut else []

    def _take(self, prompt: Prompt, reply: Reply | None) -> None:
        tree = prompt.tree
        tree.calls += reply is not None
        if prompt.question in {ONE, WRITE}:
            tree.done = True
            tree.answer = self._result(prompt, reply)
        else:
            tree.nodes.append(Node(self._noted(prompt, reply), prompt.content))

    def _noted(self, prompt: Prompt, reply: Reply | None) -> Note | Failure:
        if reply is None:
            return Note([])  # the notes below are empty, too
        if reply.error is not None or reply.value is None:
            return self._failure(reply, "a part of the group has no answer")
        text = str(reply.value)
        if reply.predicted:
            return self._foreseen(prompt, text)
        return cited(text, prompt.rows) if self._citing else Note([Sentence(text, "", ())])

    def _failure(self, reply: Reply | None, otherwise: str) -> Failure:
        """Return the failure of a part of a group, with what to write where no part is short enough."""
        error = (reply and reply.error) or otherwise
        if reply is None or not reply.too_long:
            return Failure(error)
        fewer = max(LEAST_CONTEXT, self._room.context // 2)
        return Failure(f"{error.rstrip('.')}; write context_tokens => {fewer}, or as many as the endpoint has")

    def _foreseen(self, prompt: Prompt, text: str) -> Note:
        """Return the note of a predicted answer.

        An earlier answer of the question tells how long notes are, and whether they cite rows. Without one, a note has
        the usual length and cites a row.
        """
        drawn = prompt.question in self._drawn
        if not self._citing:
            return Note([Sentence(text if drawn else f"{_LIKELY_NOTE}{text}", "", ())])
        if drawn:
            note = cited(text, prompt.rows)
            if note.sentences or not has_numbers(text):
                return note
        return Note([Sentence(text if drawn else f"{_LIKELY_NOTE}{text}", "", tuple(prompt.rows.values())[:1])])

    def _has_earlier_answers(self, question: AICall) -> bool:
        if not self._asker.is_dry:
            return False
        asked = question.function, question.instruction, question.parameters
        return extras_of(self._asker.binding(question).engine).answer_share(asked, bool) is not None

    def _result(self, prompt: Prompt, reply: Reply | None) -> Any:
        if reply is None or reply.error is not None or reply.value is None:
            return self._failure(reply, "the group has no answer")
        if not self._citing:
            return reply.value
        if reply.predicted:
            return {"value": reply.value, "citations": []}
        note = cited(str(reply.value), prompt.rows)
        if not note.sentences:
            return Failure(_UNCITED)
        numbers = {row: number for number, row in enumerate(note.rows, start=1)}
        return {"value": note.shown(numbers), "citations": [prompt.tree.group.keys[row] for row in note.rows]}

    def _note(self, trees: Sequence[Tree]) -> None:
        """Note the shape of the trees, for EXPLAIN."""
        large = [tree for tree in trees if tree.leaves]
        small = len(trees) - len(large)
        told = [f"{small:,} group{'s' * (small != 1)} in one call each"] if small else []
        if large:
            leaves, levels = sum(tree.leaves for tree in large), max(tree.levels for tree in large)
            calls = sum(tree.calls for tree in large)
            told.append(
                f"{len(large):,} group{'s' * (len(large) != 1)} with {leaves:,} leaves of up to"
                f" {min(self._room.leaf, self._room.whole):,} tokens, {levels:,} levels, up to"
                f" {self._room.notes:,} notes in a call, {calls:,} calls"
            )
            if self._citing and self._asker.is_dry:
                told.append(
                    "as many notes cite rows as in earlier answers"
                    if EXTRACT in self._drawn
                    else "at most these calls: a run makes no call for notes that cite no row"
                )
        self._asker.counters.note(0, 0, steps="; ".join(told) or "no groups")
