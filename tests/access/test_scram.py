"""Verifiers of passwords for SCRAM."""

import base64
import hashlib
import hmac
from dataclasses import replace
from pathlib import Path

from flightllm.access.passwords import hash_password
from flightllm.access.scram import ScramVerifier
from flightllm.access.store import AccessStore, User


def test_rfc_7677() -> None:
    """The proof and the signature of the standard's example hold."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    verifier = ScramVerifier(
        salt, 4096, hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256")
    )
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    signed = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}".encode()
    assert verifier.proves(base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), signed)
    assert base64.b64encode(verifier.signature(signed)) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert not verifier.proves(bytes(32), signed)
    assert ScramVerifier.read(str(verifier)) == verifier


def test_store(tmp_path: Path) -> None:
    """A verifier belongs to one password: a new password, also by an older server, or the user's end voids it."""
    store = AccessStore(tmp_path / "access.sqlite")
    store.add_user(User("ann", "user"), "correct horse")
    first = store.snapshot().verifiers["ann"]
    store.change_user(store.user("ann"), "battery staple")
    assert store.snapshot().verifiers["ann"] not in (first, None)
    store.change_user(replace(store.user("ann"), password=hash_password("another one")))
    assert "ann" not in store.snapshot().verifiers
    store.add_verifier(store.user("ann"), "another one")
    assert "ann" in store.snapshot().verifiers
    store.drop_user("ann")
    assert not store.snapshot().verifiers
    store.close()
