"""Verifiers of passwords for SCRAM-SHA-256 (RFC 5802, RFC 7677), by which a client logs in without sending a password.

A verifier does not tell the password: like the Argon2 hash it can only check guesses.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass, field

ITERATIONS = 16_384
"""The iterations of PBKDF2: four times PostgreSQL's number. asyncpg computes them in Python, in about 50 ms."""
_SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class ScramVerifier:
    """The values with which a server checks a login: salt, iterations, and the two keys of RFC 5802."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, iterations: int = ITERATIONS) -> "ScramVerifier":
        """Return the verifier of a password, with a fresh salt. It takes about 10 ms."""
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac("sha256", _prepared(password), salt, iterations)
        stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
        return cls(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", "sha256"))

    @classmethod
    def mock(cls, name: str, key: bytes) -> "ScramVerifier":
        """Return a verifier that no password has. Its salt is always the same for a name, as a user's salt is."""
        seed = hmac.digest(key, b"scram:" + name.encode("utf-8", "surrogatepass"), "sha256")
        return cls(seed[:_SALT_BYTES], ITERATIONS, secrets.token_bytes(32), secrets.token_bytes(32))

    @classmethod
    def read(cls, text: str) -> "ScramVerifier | None":
        """Read the text that `str` writes, in PostgreSQL's form; None for another text."""
        method, _, rest = text.partition("$")
        parts = rest.replace("$", ":").split(":")
        if method != "SCRAM-SHA-256" or len(parts) != 4 or not parts[0].isdecimal():
            return None
        try:
            salt, stored_key, server_key = (base64.b64decode(part, validate=True) for part in parts[1:])
        except binascii.Error:
            return None
        return cls(salt, int(parts[0]), stored_key, server_key)

    def __str__(self) -> str:
        salt, stored_key, server_key = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored_key}:{server_key}"

    def proves(self, proof: bytes, signed: bytes) -> bool:
        """Return whether a client's proof for the signed messages is the proof of this password."""
        signature = hmac.digest(self.stored_key, signed, "sha256")
        if len(proof) != len(signature):
            return False
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.sha256(client_key).digest(), self.stored_key)

    def signature(self, signed: bytes) -> bytes:
        """Return the server's own proof for the signed messages."""
        return hmac.digest(self.server_key, signed, "sha256")


def _prepared(password: str) -> bytes:
    """Return a password as SASLprep (RFC 4013) writes it; unchanged where SASLprep forbids it, as PostgreSQL does."""
    mapped = "".join(
        " " if stringprep.in_table_c12(letter) else letter for letter in password if not stringprep.in_table_b1(letter)
    )
    text = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    forbidden = (
        *(stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3, stringprep.in_table_c4),
        *(stringprep.in_table_c5, stringprep.in_table_c6, stringprep.in_table_c7, stringprep.in_table_c8),
        *(stringprep.in_table_c9, stringprep.in_table_a1),
    )
    right_to_left = [stringprep.in_table_d1(letter) for letter in text]
    wrong_order = any(right_to_left) and (
        any(map(stringprep.in_table_d2, text)) or not (right_to_left[0] and right_to_left[-1])
    )
    if not text or wrong_order or any(test(letter) for letter in text for test in forbidden):
        text = password
    return text.encode("utf-8", "surrogatepass")
