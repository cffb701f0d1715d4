"""Bad messages: each ends in an error that is not a defect, or a closed connection, and the server goes on."""

import random
import socket
import struct
from collections.abc import Iterator

import pytest

from tests.postgres.support import PASSWORD, SECONDS, Place

_STARTUP = b"user\0me\0database\0flightllm\0\0"
_TEXTS = (
    *(b"SELECT 1", b"SELECT $1", b"", b"BEGIN", b"COPY t FROM STDIN", b"\xff\xfe", b"SELECT * FROM t LIMIT 3"),
    *(b"DECLARE c CURSOR FOR SELECT 1", b"SET x TO", b"SHOW", b"EXECUTE p(1)", b"PREPARE p AS SELECT $1", b"CLOSE"),
    *(b"COPY", b"FETCH 2 FROM c"),
)


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _valid(rng: random.Random) -> bytes:
    """Return a message as a client could send it, with odd parts."""
    name = rng.choice((b"", b"a", b"c", b"\xff"))
    text = rng.choice(_TEXTS)
    number = struct.pack("!h", rng.choice((0, 1, 2, -1, 32767)))
    value = rng.choice(
        (b"\xff\xff\xff\xff", struct.pack("!i", 1) + b"1", struct.pack("!i", -7), struct.pack("!i", 1 << 30))
    )
    oid = struct.pack("!i", rng.choice((0, 23, 1007, 1700, 17, 1184, 99_999, -1)))
    kinds = {
        b"Q": text + b"\0",
        b"P": name + b"\0" + text + b"\0" + number + oid,
        b"B": name + b"\0" + name + b"\0" + number + number + number + value + number,
        b"D": rng.choice((b"S", b"P", b"x")) + name + b"\0",
        b"E": name + b"\0" + struct.pack("!i", rng.choice((0, 1, -1, 1 << 30))),
        b"C": rng.choice((b"S", b"P", b"")) + name + b"\0",
        b"S": b"",
        b"H": b"",
        b"F": rng.randbytes(6),
        b"d": rng.randbytes(9),
        b"c": b"",
        b"f": text + b"\0",
        b"p": text + b"\0",
    }
    kind = rng.choice(list(kinds))
    return _message(kind, kinds[kind])


def _damaged(rng: random.Random, data: bytes) -> bytes:
    """Return a message with a flipped, missing or additional part."""
    how, at = rng.randrange(6), rng.randrange(len(data))
    if how == 0:
        return data[:at] + rng.randbytes(1) + data[at + 1 :]
    if how == 1:
        return data[:at]
    if how == 2:
        return data[:1] + struct.pack("!i", rng.choice((-1, 0, 3, 1 << 30, len(data) + 7))) + data[5:]
    if how == 3:
        return _message(data[:1], data[5:] + rng.randbytes(rng.randrange(9)))
    if how == 4:
        return _message(data[:1], rng.randbytes(rng.randrange(20)))
    return data


def _begins(rng: random.Random) -> bytes:
    """Return the first bytes of a connection: mostly a login, sometimes something else."""
    version = rng.choice(
        (196608, 196608, 196608, 196608, 196610, 80877102, 80877103, 80877104, 131072, rng.getrandbits(31))
    )
    body = struct.pack("!i", version) + (_STARTUP if rng.randrange(4) else rng.randbytes(rng.randrange(30)))
    size = len(body) + 4 if rng.randrange(8) else rng.choice((0, 7, 9, 20_000, -1, 1 << 30))
    return struct.pack("!i", size) + body


def _talk(port: int, sent: bytes, quiet: float = 0.02) -> bytes:
    """Send bytes, read until the server is quiet or closes, leave, and return what came back."""
    answer = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as link:
        try:
            link.sendall(sent)
            link.settimeout(quiet)
            while piece := link.recv(1 << 16):
                answer += piece
        except TimeoutError:  # the server waits for the rest of a message
            pass
        except ConnectionError:
            pass
    return bytes(answer)


def _sent(seed: int, count: int) -> Iterator[bytes]:
    """Yield what one connection after the other sends; together they send `count` damaged messages or logins."""
    rng = random.Random(seed)  # noqa: S311 - the same messages in each run
    while count > 0:
        if not rng.randrange(5):
            count -= 1
            yield _begins(rng)
            continue
        valid = [_valid(rng) for _ in range(rng.randrange(1, 12))]
        messages = [one if rng.randrange(4) else _damaged(rng, one) for one in valid]
        count -= sum(sent != one for sent, one in zip(messages, valid, strict=True))
        login = struct.pack("!ii", len(_STARTUP) + 8, 196608) + _STARTUP
        yield login + b"".join(messages) + _message(b"X", b"")


def _attack(place: Place, seed: int, count: int) -> None:
    for sent in _sent(seed, count):
        assert b"CXX000\0" not in _talk(place.port, sent), sent
    assert place.rows("SELECT count(*) FROM t WHERE a < 4") == [(3,)]


def test_some(place: Place) -> None:
    """A hundred damaged messages between others."""
    _attack(place, 1, 100)


@pytest.mark.slow
def test_many(place: Place) -> None:
    """50,000 damaged messages between others."""
    _attack(place, 2, 50_000)


@pytest.mark.parametrize("size", [9, 100, 1 << 14, 1 << 30])
def test_strangers(door: Place, size: int) -> None:
    """Before the login, no statement runs, and messages are short."""
    body = b"ann\0"
    login = struct.pack("!ii", len(b"user\0ann\0\0") + 8, 196608) + b"user\0ann\0\0"
    answer = _talk(door.port, login + _message(b"Q", b"SELECT 1\0"), SECONDS)
    assert b"08P01" in answer
    assert b"Z\0\0\0\5" not in answer
    answer = _talk(door.port, login + b"p" + struct.pack("!i", size) + body, 0.2)
    assert b"Z\0\0\0\5" not in answer


def test_password_in_the_clear(door: Place) -> None:
    """An unknown mechanism, or a password in place of a proof, never logs in."""
    login = struct.pack("!ii", len(b"user\0ann\0\0") + 8, 196608) + b"user\0ann\0\0"
    for first in (b"SCRAM-SHA-1", b"SCRAM-SHA-256-PLUS", b"PLAIN", b""):
        body = first + b"\0" + struct.pack("!i", 12) + b"n,,n=,r=abcd"
        assert b"E\0" in _talk(door.port, login + _message(b"p", body), SECONDS)
    assert b"E\0" in _talk(door.port, login + _message(b"p", PASSWORD.encode() + b"\0"), SECONDS)
