"""The keys that CREATE TABLE declares: nothing enforces them, clients and ON CONFLICT read them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from flightllm.common.names import TableName

Rule = Literal["CASCADE", "RESTRICT", "SET NULL", "NO ACTION", "SET DEFAULT"]
"""What ON UPDATE and ON DELETE say; the order is that of Flight SQL's numbers."""
RULES: tuple[Rule, ...] = get_args(Rule)


@dataclass(frozen=True, slots=True)
class Key:
    """A PRIMARY KEY or UNIQUE constraint: its name, and its columns in the order of the declaration."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A FOREIGN KEY constraint. `references` are columns of `table`; none stands for its primary key."""

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
        """Tell whether there is any."""
        return bool(self.primary or self.unique or self.foreign)

    @property
    def candidates(self) -> tuple[Key, ...]:
        """Return the keys that each tell one row from the others, the primary one first."""
        return (*([self.primary] if self.primary else []), *self.unique)

    def told_of(self, column: str) -> str | None:
        """Return what people are told of a column: the keys that it is part of, and that nothing enforces these."""
        kinds = [("PRIMARY KEY", self.primary), *(("UNIQUE", key) for key in self.unique)]
        told = [f"{kind}{_others(key)}" for kind, key in kinds if key is not None and column in key.columns]
        for foreign in self.foreign:
            if column in foreign.columns:
                referred = f" ({', '.join(foreign.references)})" if foreign.references else ""
                told.append(f"FOREIGN KEY{_others(foreign)} REFERENCES {foreign.table.display}{referred}")
        return f"{'; '.join(told)}; not enforced" if told else None

    def as_json(self) -> dict[str, object]:
        """Return what `of_json` reads."""
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
        """Read what `as_json` returned; raises ValueError, KeyError or TypeError where it is something else."""
        primary = written["primary"]
        return cls(
            None if primary is None else _read_key(primary),
            tuple(map(_read_key, written["unique"])),
            tuple(map(_read_foreign, written["foreign"])),
        )


NO_KEYS = TableKeys()


def _others(key: Key | ForeignKey) -> str:
    """Return the columns of a key that has several."""
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
