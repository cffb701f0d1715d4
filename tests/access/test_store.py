"""Users, tokens, grants and policies as they are kept."""

import errno
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from flightllm.access.file import AccessFile
from flightllm.access.store import AccessStore, Allowance, User
from flightllm.errors import ConfigError, InvalidInputError, NotFoundError
from flightllm.sql.grants import AccessPolicy, Grant
from flightllm.storage.lock import FolderLock

SECRET = "correct horse"


def test_what_is_kept_outlives_the_store_and_holds_no_secret(tmp_path: Path) -> None:
    """Users, tokens, grants, policies and spending are there after reopening; passwords and tokens are not."""
    path = tmp_path / "access.sqlite"
    store = AccessStore(path)
    store.add_user(User("alice", "user", frozenset({"eu"}), "acme", allowance=Allowance(1, 2, 3.5)), SECRET)
    token = store.add_token("alice", "laptop")
    store.grant([Grant("eu", "SELECT", "TABLE", "public", "t")])
    store.set_policy(AccessPolicy("eu", "public", "t", "", "a = 1"))
    store.add_spent("alice", "2026-01-01", 1, 10, 0.5)
    store.add_spent("alice", "2026-01-01", 1, 10, 0.5)
    store.close()
    again = AccessStore(path)
    snapshot = again.snapshot()
    assert snapshot.users["alice"].groups == {"eu"}
    assert snapshot.users["alice"].allowance == Allowance(1, 2, 3.5)
    assert [kept.label for kept in snapshot.tokens.values()] == ["laptop"]
    assert Grant("eu", "SELECT", "TABLE", "public", "t") in snapshot.grants
    assert snapshot.policies == (AccessPolicy("eu", "public", "t", "", "a = 1"),)
    assert again.spent("alice", "2026-01-01") == (2, 20, 1.0)
    again.close()
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert SECRET.encode() not in written
    assert token.encode() not in written
    assert path.stat().st_mode & 0o077 == 0


def test_another_process_s_change_is_seen(tmp_path: Path) -> None:
    """The command line writes to the file that a running server has read."""
    server, command_line = AccessStore(tmp_path / "access.sqlite"), AccessStore(tmp_path / "access.sqlite")
    assert not server.snapshot().users
    assert not (tmp_path / "access.sqlite").exists()
    command_line.add_user(User("alice", "user"))
    assert set(server.snapshot().users) == {"alice"}
    command_line.change_user(User("alice", "readonly"))
    assert server.user("alice").role == "readonly"
    command_line.drop_user("alice")
    assert not server.snapshot().users


def test_a_dropped_user_leaves_nothing(tmp_path: Path) -> None:
    """Its tokens, grants and policies go with it: another user of this name has none of them."""
    store = AccessStore(tmp_path / "access.sqlite")
    store.add_user(User("alice", "user"))
    store.add_token("alice")
    store.grant([Grant("alice", "SELECT", "TABLE", "public", "t")])
    store.set_policy(AccessPolicy("alice", "public", "t", "", "true"))
    store.drop_user("alice")
    snapshot = store.snapshot()
    assert not snapshot.tokens
    assert not snapshot.policies
    assert all(grant.grantee != "alice" for grant in snapshot.grants)


def test_the_name_of_a_dropped_user(tmp_path: Path) -> None:
    """Another user gets it, with the tables and queries still under it, only where that is said."""
    store = AccessStore(tmp_path / "access.sqlite")
    store.add_user(User("alice", "user"))
    store.drop_user("alice")
    for _ in range(2):
        with pytest.raises(InvalidInputError, match=r"an earlier user had the name 'alice'.*--again"):
            store.add_user(User("alice", "readonly"))
    store.add_user(User("alice", "readonly"), again=True)
    assert store.user("alice").role == "readonly"


@pytest.mark.parametrize("name", ["", "admin", "readonly", "local", "a:b", "a\nb"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    """A role's name, an empty one, and those that Basic credentials or a terminal would misread."""
    with pytest.raises(InvalidInputError, match="cannot be a name"):
        AccessStore(tmp_path / "access.sqlite").add_user(User(name, "user"))


def test_a_group_is_no_user(tmp_path: Path) -> None:
    """What is granted to a group must not fall to a user of its name, nor the other way round."""
    store = AccessStore(tmp_path / "access.sqlite")
    store.add_user(User("alice", "user", frozenset({"eu"})))
    with pytest.raises(InvalidInputError, match="taken"):
        store.add_user(User("eu", "user"))
    with pytest.raises(InvalidInputError, match="cannot be a group"):
        store.add_user(User("bob", "user", frozenset({"alice"})))
    with pytest.raises(InvalidInputError, match="cannot be a group"):
        store.change_user(User("alice", "user", frozenset({"alice"})))


def test_what_is_not_there(tmp_path: Path) -> None:
    """Changes of users and tokens that do not exist say so; a short password is refused."""
    store = AccessStore(tmp_path / "access.sqlite")
    for change in (lambda: store.drop_user("x"), lambda: store.add_token("x"), lambda: store.drop_token("x")):
        with pytest.raises(NotFoundError):
            change()
    with pytest.raises(InvalidInputError, match="8 characters"):
        store.add_user(User("x", "user"), "short")


def test_readers_and_logins_wait_for_no_writer(tmp_path: Path) -> None:
    """While another process holds the file for a change, rights are read and login tokens checked."""
    path = tmp_path / "access.sqlite"
    store = AccessStore(path)
    store.add_user(User("alice", "user"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        fresh = AccessStore(path)
        assert set(fresh.snapshot().users) == {"alice"}
        assert fresh.signing_key() == store.signing_key()
        other.execute("ROLLBACK")


def test_after_closing_nothing_is_opened_again(tmp_path: Path) -> None:
    """A query that ends late reads what was, and cannot write."""
    store = AccessStore(tmp_path / "access.sqlite")
    store.add_user(User("alice", "user"))
    store.snapshot()
    store.close()
    assert set(store.snapshot().users) == {"alice"}
    with pytest.raises(ConfigError, match="closed"):
        store.add_spent("alice", "2026-01-01", 1, 1, 0.0)


def test_a_damaged_file_opens_nothing(tmp_path: Path) -> None:
    """Without knowing who may what, the store refuses: nobody becomes an admin by a broken file."""
    (tmp_path / "access.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(ConfigError, match=r"access\.sqlite"):
        AccessStore(tmp_path / "access.sqlite").snapshot()


def test_the_folder_is_its_owner_s_alone(tmp_path: Path) -> None:
    """Where the first user makes it, before there was a server, as where a server does."""
    store = AccessStore(tmp_path / "data" / "access.sqlite")
    store.add_user(User("alice", "user"))
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    store.close()


def test_a_file_of_an_older_server(tmp_path: Path) -> None:
    """It gets the tables that it lacks at the first change, and no grant that was revoked."""
    path = tmp_path / "access.sqlite"
    store = AccessStore(path)
    store.add_user(User("alice", "user"))
    model = Grant("user", "USAGE", "MODEL", "", "default")
    store.revoke([model])
    store.close()
    with closing(sqlite3.connect(path)) as database:
        database.executescript("DROP TABLE dropped; DROP TABLE checksums")
    again = AccessStore(path)
    assert set(again.snapshot().users) == {"alice"}
    again.drop_user("alice")
    with pytest.raises(InvalidInputError, match="an earlier user had the name"):
        again.add_user(User("alice", "user"))
    assert model not in again.snapshot().grants
    again.close()


def kept(path: Path) -> AccessStore:
    """Make a file with a user, a grant, a row filter and spending; close it."""
    with closing(AccessStore(path)) as store:
        store.add_user(User("bob", "readonly"), SECRET)
        store.add_token("bob", "laptop")
        store.grant([Grant("bob", "SELECT", "TABLE", "public", "t")])
        store.set_policy(AccessPolicy("bob", "public", "t", "", "a = 1"))
        store.add_spent("bob", "2026-01-01", 1, 10, 0.5)
    return AccessStore(path)


@pytest.mark.parametrize("damage", ["gone", "empty", "half"])
def test_a_lost_file_is_not_a_server_without_users(tmp_path: Path, damage: str) -> None:
    """Neither the server nor a command takes it for a new one; `reset` keeps what is left of it."""
    path = tmp_path / "access.sqlite"
    kept(path).close()
    content = path.read_bytes()
    left = {"gone": None, "empty": b"", "half": content[: len(content) // 2]}[damage]
    if left is None:
        path.unlink()
    else:
        path.write_bytes(left)
    with closing(AccessStore(path)) as store:
        with pytest.raises(ConfigError, match=r"restore .* backup, or start"):
            store.snapshot()
        with pytest.raises(ConfigError, match=r"restore .* backup, or start"):
            store.add_user(User("eve", "admin"))
    assert (path.read_bytes() if path.exists() else None) == left
    aside = AccessFile(path).reset()
    assert (aside and aside.read_bytes()) == left
    with closing(AccessStore(path)) as store:
        assert not store.snapshot().users
        store.add_user(User("root", "admin"))
    with pytest.raises(InvalidInputError, match="not damaged"):
        AccessFile(path).reset()


def test_no_flipped_bit_changes_a_right(tmp_path: Path) -> None:
    """After a flip anywhere, the rights are the same or the file is refused: SQLite alone notices few of them."""
    path = tmp_path / "access.sqlite"
    with closing(kept(path)) as store:
        right, key = store.snapshot(), store.signing_key()
    content = path.read_bytes()
    first = content.index(b"readonly", content.index(b"bob"))
    refused = 0
    for place in [*range(first, first + 8), *range(0, len(content), 509)]:
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with closing(AccessStore(path)) as store:
            try:
                assert (store.snapshot(), store.signing_key()) == (right, key)
            except ConfigError:
                refused += 1
    assert refused >= 8


def test_a_change_by_an_older_version_is_no_damage(tmp_path: Path) -> None:
    """It knows no checksums; the next change by this version adds them again."""
    path = tmp_path / "access.sqlite"
    kept(path).close()
    with closing(sqlite3.connect(path)) as older, older:
        older.execute("UPDATE users SET role = 'user'")
    with closing(AccessStore(path)) as store:
        assert store.user("bob").role == "user"
        store.seal()
    with closing(sqlite3.connect(path)) as database:
        assert all(value for (value,) in database.execute("SELECT value FROM checksums"))


@pytest.mark.slow
def test_readers_beside_a_writer_find_no_damage(tmp_path: Path) -> None:
    """Rights, spending and new connections are read at one moment each, while another thread changes the file."""
    path = tmp_path / "access.sqlite"
    done = threading.Event()
    with closing(kept(path)) as store, closing(AccessStore(path)) as other:

        def write() -> None:
            try:
                for number in range(120):
                    other.add_spent("bob", "2026-01-01", 1, 1, 0.0)
                    other.grant([Grant("bob", "SELECT", "TABLE", "public", f"t{number}")])
            finally:
                done.set()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            while not done.is_set():
                store.snapshot()
                store.spent("bob", "2026-01-01")
                AccessFile(path).connect().close()
        finally:
            thread.join()
        assert len(store.snapshot().grants) == 123
        assert store.spent("bob", "2026-01-01")[0] == 121


def test_spending_reads_no_rights_again(tmp_path: Path) -> None:
    """Each query adds spending: the snapshot stays the same object."""
    with closing(kept(tmp_path / "access.sqlite")) as store:
        before = store.snapshot()
        store.add_spent("bob", "2026-01-01", 1, 1, 0.0)
        assert store.snapshot() is before
        store.add_token("bob")
        assert len(store.snapshot().tokens) == 2


def test_reset_leaves_what_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked file is no damaged one, and nobody takes the file from a running server."""
    path = tmp_path / "access.sqlite"
    kept(path).close()
    monkeypatch.setattr("flightllm.access.file._BUSY_SECONDS", 0.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        other.execute("UPDATE users SET role = role")
        with pytest.raises(ConfigError, match="locked"):
            AccessFile(path).reset()
    path.write_bytes(b"")
    with closing(FolderLock(tmp_path)), pytest.raises(ConfigError, match="another process uses the folder"):
        AccessFile(path).reset()
    assert path.read_bytes() == b""
    assert not list(tmp_path.glob("*damaged*"))


def test_a_reset_that_stops_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start tells that the users are missing: nobody becomes an admin."""
    path = tmp_path / "access.sqlite"
    kept(path).close()
    path.write_bytes(b"")
    with monkeypatch.context() as patched:
        patched.setattr(AccessFile, "_make", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            AccessFile(path).reset()
    with closing(AccessStore(path)) as store, pytest.raises(ConfigError, match="missing"):
        store.snapshot()
    AccessFile(path).reset()
    assert path.exists()


def test_a_filesystem_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first user is kept there, too, in a file for its owner alone."""

    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "access.sqlite"
    with closing(AccessStore(path)) as store:
        store.add_user(User("ann", "admin"))
    assert path.stat().st_mode & 0o777 == 0o600
    with closing(AccessStore(path)) as store:
        assert set(store.snapshot().users) == {"ann"}
