"""The keys that CREATE TABLE declares; nothing checks that their values are unique."""

from flightllm.catalog.entries import Entry


def keys_of(entry: Entry) -> tuple[tuple[str, ...], ...]:
    """Return the columns of each key of a table; the primary key comes first."""
    return tuple(tuple(key.columns) for key in entry.keys.candidates)
