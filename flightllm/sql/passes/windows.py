"""Write the definition of a named window in each place that uses it: DataFusion ignores the name in `OVER (w …)`."""

from collections.abc import Iterator
from typing import Final

from flightllm.errors import SqlError
from flightllm.sql.nodes import Json, Node, body, is_query, kind, name_of, rebuilt, unnested, walk
from flightllm.sql.parsed_text import ParsedText
from flightllm.sql.query_columns import TableColumns
from flightllm.sql.tokens import TokenKind
from flightllm.sql.tree import Tree

_BEGINS: Final = ("partition", "order", "rows", "range", "groups")
"""Words that begin a clause of a window; another word there is the name of a window."""
_Windows = dict[str, Json]


def has_named_windows(text: ParsedText) -> bool:
    """Return whether a text names a window, or has a frame with a negative size."""
    if "window" in text.words or ("-" in text.sql and not text.words.isdisjoint(("preceding", "following"))):
        return True
    return any(_names_window(text, index) for index, token in enumerate(text.tokens) if token.is_word("over"))


def _names_window(text: ParsedText, index: int) -> bool:
    named = text.tokens[index + 1 : index + 3]
    if len(named) < 2 or not named[0].is_symbol("("):
        return bool(named) and named[0].kind in {TokenKind.WORD, TokenKind.QUOTED} and text.is_symbol(index - 1, ")")
    name = named[1]
    return name.kind is TokenKind.QUOTED or (name.kind is TokenKind.WORD and not name.is_word(*_BEGINS))


def windows(tree: Tree, _: TableColumns) -> Tree:
    """Rewrite `sum(x) OVER (w ORDER BY y) … WINDOW w AS (PARTITION BY g)` as `… OVER (PARTITION BY g ORDER BY y)`.

    Raises:
        SqlError: no window has the name, a clause replaces one of the named window, or a frame has a negative size.
    """
    root = rebuilt(tree.root, _Writer(tree).changed, _has_windows)
    return tree if root is tree.root else Tree(tree.sql, root)


def _has_windows(value: Json) -> bool:
    return is_query(value) or kind(value) in {"Select", "WindowSpec"}


class _Writer:
    """Writes the windows of one statement; inner queries come before the query around them."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._by_select = dict[int, _Windows]()
        self._kept = list[Json]()  # so that no other object gets the id of a changed SELECT

    def changed(self, value: Json) -> Json:
        if is_query(value):
            return self._ordered(value)
        fields = body(value)
        if kind(value) == "Select":
            return {"Select": self._select(fields)} if _names_windows(fields) else value
        self._check_frame(fields["window_frame"])
        return value

    def _select(self, select: Json) -> Json:
        found: _Windows = {}
        for identifier, definition in select["named_window"]:
            if name_of(identifier) in found:
                raise SqlError(f"the window {self._said(identifier)} is defined twice: write another name")
            found[name_of(identifier)] = self._whole(definition, found)
        after = self._expanded({**select, "named_window": []}, found)
        self._by_select[id(after)] = found
        self._kept.append(after)
        return after

    def _ordered(self, query: Json) -> Json:
        """Return a query whose ORDER BY has the windows of its SELECT."""
        order, select = query["order_by"], query["body"]
        if not order or kind(select) != "Select" or not _names_windows(order):
            return query
        return {**query, "order_by": self._expanded(order, self._by_select.get(id(body(select)), {}))}

    def _expanded(self, value: Json, found: _Windows) -> Json:
        def change(node: Node) -> Json:
            over = body(node)["over"] if kind(node) == "Function" else None
            return node if over is None else {"Function": {**body(node), "over": self._over(over, found)}}

        return rebuilt(value, change)

    def _over(self, over: Json, found: _Windows) -> Json:
        whole = self._whole(over, found)
        return over if whole is body(over) else {"WindowSpec": whole}

    def _whole(self, window: Json, found: _Windows) -> Json:
        """Return the clauses of a window with those of the window that it names."""
        fields = body(window)
        if kind(window) == "NamedWindow":
            return self._found(fields, found)
        identifier = fields["window_name"]
        if identifier is None:
            return fields
        base = self._found(identifier, found)
        for key, clause in (("partition_by", "PARTITION BY"), ("order_by", "ORDER BY")):
            if fields[key] and (base[key] or key == "partition_by"):
                raise SqlError(
                    f"{clause} replaces that of the window {self._said(identifier)}: write all clauses in place of"
                    " the name"
                )
        if base["window_frame"] is not None:
            raise SqlError(
                f"the window {self._said(identifier)} has a frame: write OVER {name_of(identifier)} without"
                " parentheses, or all clauses in place of the name"
            )
        own = {key: fields[key] or base[key] for key in ("partition_by", "order_by")}
        return {**fields, **own, "window_name": None}

    def _found(self, identifier: Json, found: _Windows) -> Json:
        if name_of(identifier) not in found:
            raise SqlError(
                f"no window {self._said(identifier)} is defined before this place: write WINDOW"
                f" {name_of(identifier)} AS (…) after FROM, WHERE and GROUP BY"
            )
        return found[name_of(identifier)]

    def _said(self, identifier: Json) -> str:
        return f"{name_of(identifier)} at {self._tree.position(identifier)}"

    def _check_frame(self, frame: Json) -> None:
        for bound in filter(kind, (frame["start_bound"], frame["end_bound"]) if frame else ()):
            size = body(bound)
            if size is not None and _is_negative(size):
                raise SqlError(
                    f"the frame at {self._tree.position(size)} has a negative size: write FOLLOWING in place of"
                    " PRECEDING, or the reverse"
                )


def _names_windows(value: Json) -> bool:
    return any(_names_window_of(body(node)["over"]) for node in _functions(value)) or bool(
        isinstance(value, dict) and value.get("named_window")
    )


def _functions(value: Json) -> Iterator[Node]:
    return (node for node in walk(value) if kind(node) == "Function" and body(node)["over"] is not None)


def _names_window_of(over: Json) -> bool:
    return kind(over) == "NamedWindow" or body(over)["window_name"] is not None


def _is_negative(size: Json) -> bool:
    size = unnested(size)
    if kind(size) == "UnaryOp":
        return bool(body(size)["op"] == "Minus")
    if kind(size) == "Cast":
        return _is_negative(body(size)["expr"])
    value = body(size)["value"] if kind(size) in {"Interval", "Value"} else None
    while isinstance(value, dict):
        value = value.get("value", next(iter(value.values())))
    return isinstance(value, str) and value.lstrip().startswith("-")
