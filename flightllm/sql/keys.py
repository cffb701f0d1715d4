"""The keys that CREATE TABLE declares. The server does not enforce keys; clients and ON CONFLICT read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from flightllm.common.names import TableName

Rule = Literal["CASCADE", "RESTRICT", "SET NULL", "NO ACTION", "SET DEFAULT"]
"""The rules of ON UPDATE and ON DELETE, in the order of their numbers in Flight SQL."""
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True, slots=True)
class Key:
    """A PRIMARY KEY or UNIQUE constraint: its name, and its columns in the order of the declaration."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A FOREIGN KEY constraint. `references` are columns of `table`; an empty tuple means its primary key."""

    name: str
    columns: tuple[str, ...]
    table: TableName
    references: tuple[str, ...] = ()
    on_update: Rule = "NO ACTION"
    on_delete: Rule = "NO ACTION"


@dataclass(frozen=True, slots=True)
class TableKeys:
    """All keys of a table."""

    primary: Key | None = None
    unique: tuple[Key, ...] = ()
    foreign: tuple[ForeignKey, ...] = ()

    def __bool__(self) -> bool:
        """Return whether the table has any key."""
        return bool(self.primary or self.unique or self.foreign)

    @property
    def candidates(self) -> tuple[Key, ...]:
        """Return the keys that identify a row, the primary key first."""
        return (*([self.primary] if self.primary else []), *self.unique)

    def column_remark(self, column: str) -> str | None:
        """Return the remark that describes the keys of a column, or None if the column is in no key.

        The remark says that the server does not enforce these keys.
        """
        kinds = [("PRIMARY KEY", self.primary), *(("UNIQUE", key) for key in self.unique)]
        told = [f"{kind}{_others(key)}" for kind, key in kinds if key is not None and column in key.columns]
        for foreign in self.foreign:
            if column in foreign.columns:
                referred = f" ({', '.join(foreign.references)})" if foreign.references else ""
                told.append(f"FOREIGN KEY{_others(foreign)} REFERENCES {foreign.table.display}{referred}")
        return f"{'; '.join(told)}; not enforced" if told else None

    def as_json(self) -> dict[str, object]:
        """Return the keys as JSON values that `of_json` can read."""
        return {
            "primary": self.primary and _key_json(self.primary),
            "unique": [_key_json(key) for key in self.unique],
            "foreign": [
                {
                    **_key_json(key),
                    "table": [key.table.schema, key.table.name],
                    "references": key.references,
                    "on_update": key.on_update,
                    "on_delete": key.on_delete,
                }
                for key in self.foreign
            ],
        }

    @classmethod
    def of_json(cls, written: Mapping[str, Any]) -> "TableKeys":
        """Return the keys in the result of `as_json`; raises ValueError, KeyError or TypeError for other values."""
        primary = written["primary"]
        return cls(
            None if primary is None else _read_key(primary),
            tuple(map(_read_key, written["unique"])),
            tuple(map(_read_foreign, written["foreign"])),
        )


NO_KEYS = TableKeys()


def _others(key: Key | ForeignKey) -> str:
    """Return the columns of a key of several columns, or an empty text for a key of one column."""
    return f" ({', '.join(key.columns)})" if len(key.columns) > 1 else ""


def _key_json(key: Key | ForeignKey) -> dict[str, object]:
    return {"name": key.name, "columns": key.columns}


def _read_key(written: Mapping[str, Any]) -> Key:
    return Key(str(written["name"]), _texts(written["columns"]))


def _read_foreign(written: Mapping[str, Any]) -> ForeignKey:
    schema, name = map(str, written["table"])
    return ForeignKey(
        str(written["name"]),
        _texts(written["columns"]),
        TableName(schema, name),
        _texts(written["references"]),
        _rule(written["on_update"]),
        _rule(written["on_delete"]),
    )


def _texts(written: Sequence[object]) -> tuple[str, ...]:
    return tuple(map(str, written))


def _rule(written: object) -> Rule:
    return RULES[RULES.index(written)]  # raises ValueError for anything else
