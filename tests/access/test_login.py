"""Who calls: passwords, tokens, signed claims, certificates."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from flightllm.access.claims import JwtClaims
from flightllm.access.login import Login
from flightllm.access.rights import Rights
from flightllm.access.store import AccessStore, User
from flightllm.common.names import TableName
from flightllm.common.principal import LOCAL, Principal
from flightllm.config import AuthConfig
from flightllm.errors import ConfigError, InvalidInputError, PermissionDeniedError, UnauthenticatedError
from flightllm.sql.grants import Grant

PASSWORD = "correct horse"


@pytest.fixture
def store(tmp_path: Path) -> AccessStore:
    """Return a store with the user alice."""
    store = AccessStore(tmp_path / "access.sqlite")
    store.add_user(User("alice", "user", frozenset({"eu"}), "acme"), PASSWORD)
    return store


def test_a_server_without_users_is_open(tmp_path: Path) -> None:
    """Whoever calls is the local admin, with or without credentials; nothing is written for that."""
    login = Login(AccessStore(tmp_path / "access.sqlite"), AuthConfig())
    assert login.is_open
    assert login.anonymous() == LOCAL
    principal, token = login.by_password("any", "thing")
    assert (principal, login.by_token(token), login.by_token("else")) == (LOCAL, LOCAL, LOCAL)
    assert not list(tmp_path.iterdir())


def test_the_first_user_closes_it(store: AccessStore, tmp_path: Path) -> None:
    """Tokens given out while it was open are worth nothing afterwards."""
    opened = Login(AccessStore(tmp_path / "other.sqlite"), AuthConfig())
    _, token = opened.by_password("any", "thing")
    login = Login(store, AuthConfig())
    for credentials in (token, "else", ""):
        with pytest.raises(UnauthenticatedError):
            login.by_token(credentials)
    with pytest.raises(UnauthenticatedError):
        login.anonymous()


def test_it_stays_closed(store: AccessStore) -> None:
    """Dropping the last user makes nobody an admin."""
    store.drop_user("alice")
    with pytest.raises(UnauthenticatedError):
        Login(store, AuthConfig()).anonymous()


def test_a_password_gives_a_token_that_outlives_the_server(store: AccessStore, tmp_path: Path) -> None:
    """A server started anew knows the logins of the former one."""
    principal, token = Login(store, AuthConfig()).by_password("alice", PASSWORD)
    assert principal == Principal("alice", "user", frozenset({"eu"}), "acme")
    assert Login(AccessStore(tmp_path / "access.sqlite"), AuthConfig()).by_token(token) == principal


@pytest.mark.parametrize(("name", "password"), [("alice", "wrong"), ("bob", PASSWORD), ("", PASSWORD), ("alice", "")])
def test_wrong_credentials(store: AccessStore, name: str, password: str) -> None:
    """The message does not tell whether there is such a user."""
    with pytest.raises(UnauthenticatedError, match="wrong user name or password"):
        Login(store, AuthConfig()).by_password(name, password)


def test_a_login_ends(store: AccessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a new password, by time, and for a user who is dropped; a forged one never begins."""
    login = Login(store, AuthConfig(login_seconds=60))
    _, token = login.by_password("alice", PASSWORD)
    body, _, signature = token.rpartition(".")
    with pytest.raises(UnauthenticatedError):
        login.by_token(f"{body}.{signature[::-1]}")
    later = time.time() + 61
    monkeypatch.setattr("flightllm.access.login.time.time", lambda: later)
    with pytest.raises(UnauthenticatedError, match="expired"):
        login.by_token(token)
    monkeypatch.undo()
    store.change_user(store.user("alice"), "another horse")
    with pytest.raises(UnauthenticatedError, match="no longer valid"):
        login.by_token(token)
    principal, token = login.by_password("alice", "another horse")
    store.drop_user("alice")
    store.add_user(User("bob", "user"))
    with pytest.raises(UnauthenticatedError):
        login.by_token(token)
    with pytest.raises(UnauthenticatedError, match="no longer a user of this server"):
        login.current(principal)


def test_api_tokens(store: AccessStore) -> None:
    """They open as bearer token and as password, until they expire or are revoked."""
    login = Login(store, AuthConfig())
    token = store.add_token("alice", expires=datetime.now(UTC) + timedelta(days=1))
    old = store.add_token("alice", expires=datetime.now(UTC) - timedelta(seconds=1))
    assert login.by_token(token).name == "alice"
    principal, session = login.by_password("token", token)
    assert principal.name == login.by_token(session).name == "alice"
    with pytest.raises(UnauthenticatedError, match="expired"):
        login.by_token(old)
    with pytest.raises(UnauthenticatedError):
        login.by_password("bob", token)
    for kept in store.snapshot().tokens.values():
        store.drop_token(kept.id)
    for void in (token, session):
        with pytest.raises(UnauthenticatedError):
            login.by_token(void)


def test_a_login_by_an_api_token_ends_with_it(store: AccessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The token given out for it lives no longer; one for a token without an end does."""
    login = Login(store, AuthConfig())
    lasting, short = (store.add_token("alice", expires=end) for end in (None, datetime.now(UTC) + timedelta(minutes=1)))
    stays, ends = (login.by_password("token", token)[1] for token in (lasting, short))
    assert login.by_token(ends).name == "alice"

    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(time.time() + 90, tz)

    monkeypatch.setattr("flightllm.access.login.datetime", Later)
    assert login.by_token(stays).name == "alice"
    with pytest.raises(UnauthenticatedError, match="log in again"):
        login.by_token(ends)


def test_a_changed_user_is_another_at_once(store: AccessStore) -> None:
    """A role taken away is gone for sessions that are open."""
    login = Login(store, AuthConfig())
    principal, token = login.by_password("alice", PASSWORD)
    store.change_user(User("alice", "readonly", password=store.user("alice").password))
    assert login.current(principal).role == "readonly"
    assert login.by_token(token).role == "readonly"


class Issuer:
    """Signs tokens, and writes the key set that says so."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rotate("k1")

    def rotate(self, kid: str) -> None:
        """Sign with a new key, and publish it alone."""
        self._kid, self._key = kid, ec.generate_private_key(ec.SECP256R1())
        public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key()))
        self.path.write_text(json.dumps({"keys": [{**public, "kid": kid, "use": "sig", "alg": "ES256"}]}))

    def token(self, **claims: Any) -> str:
        """Return a token that is valid for a minute unless told otherwise."""
        given = {"sub": "carol", "iss": "idp", "aud": "flightllm", "exp": time.time() + 60, **claims}
        return jwt.encode(given, self._key, algorithm="ES256", headers={"kid": self._kid})


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    """Return who signs tokens."""
    return Issuer(tmp_path / "keys.json")


def _signed(store: AccessStore, issuer: Issuer, **options: Any) -> Login:
    config = AuthConfig(jwks=f"file:{issuer.path}", issuer="idp", audience="flightllm", **options)
    return Login(store, config, claims=JwtClaims(config))


def test_signed_claims(store: AccessStore, issuer: Issuer) -> None:
    """A user whom the server does not keep is what its token says, and without a role nobody."""
    login = _signed(store, issuer)
    carol = login.by_token(issuer.token(role="readonly", groups=["eu", "admin", 5], tenant="acme"))
    assert carol == Principal("carol", "readonly", frozenset({"eu"}), "acme", known=False)
    with pytest.raises(UnauthenticatedError, match="not a user of this server"):
        login.by_token(issuer.token())
    with pytest.raises(UnauthenticatedError, match="role 'superuser' is unknown; there are: admin, user, readonly"):
        login.by_token(issuer.token(role="superuser"))
    with pytest.raises(UnauthenticatedError):
        login.anonymous()
    assert _signed(store, issuer, default_role="readonly").by_token(issuer.token()).role == "readonly"


def test_a_signed_name_that_is_a_user(store: AccessStore, issuer: Issuer) -> None:
    """It is somebody else, unless an admin said that both are one; then the token's role holds, not the kept one."""
    store.add_user(User("root", "admin"), PASSWORD)
    login = _signed(store, issuer, default_role="readonly")
    for claims in ({}, {"role": "readonly"}, {"role": "admin"}):
        with pytest.raises(UnauthenticatedError, match="flightllm user set root --linked"):
            login.by_token(issuer.token(sub="root", **claims))
    store.change_user(replace(store.user("root"), linked=True))
    linked = login.by_token(issuer.token(sub="root", role="readonly"))
    assert (linked.name, login.current(linked).role) == ("root", "readonly")
    assert not Rights.of(login.current(linked), store.snapshot()).unlimited
    assert login.by_token(issuer.token(sub="root")).role == "admin"
    assert login.by_password("root", PASSWORD)[0].role == "admin"
    store.change_user(replace(store.user("root"), linked=False))
    with pytest.raises(UnauthenticatedError, match="not linked to the identity provider's user"):
        login.current(linked)
    store.drop_user("root")
    with pytest.raises(UnauthenticatedError, match="no longer a user of this server"):
        login.current(linked)


def test_a_user_added_while_another_of_the_name_is_logged_in(store: AccessStore, issuer: Issuer) -> None:
    """The session from elsewhere does not become the new user's, and the new user gets nothing of it unasked."""
    login = _signed(store, issuer)
    carol = login.by_token(issuer.token(role="readonly"))
    assert login.current(carol) == carol
    with pytest.raises(InvalidInputError, match=r"an earlier user had the name 'carol'.*--again"):
        store.add_user(User("carol", "admin"))
    store.add_user(User("carol", "admin"), again=True)
    with pytest.raises(UnauthenticatedError, match="not linked to the identity provider's user"):
        login.current(carol)


def test_a_signed_name_of_a_dropped_user(store: AccessStore, issuer: Issuer) -> None:
    """What a dropped user made does not become an identity provider's user's, unless an admin says so."""
    login = _signed(store, issuer, default_role="readonly")
    carol = login.by_token(issuer.token(role="user"))
    for name in ("alice", "carol"):
        if name == "carol":
            store.add_user(User("carol", "user"), again=True)
        store.drop_user(name)
        with pytest.raises(UnauthenticatedError, match=f"another user '{name}' was dropped from this server"):
            login.by_token(issuer.token(sub=name, role="user"))
    with pytest.raises(UnauthenticatedError, match="another user 'carol' was dropped"):
        login.current(carol)
    assert login.by_token(issuer.token(sub="dan", role="user")).name == "dan"
    store.add_user(User("carol", "user", linked=True), again=True)
    assert login.current(carol).name == login.by_token(issuer.token(role="user")).name == "carol"


def test_a_signed_name_that_is_a_group(store: AccessStore, issuer: Issuer) -> None:
    """What is granted to a group is for its members, not for who has its name elsewhere; added users are."""
    login = _signed(store, issuer, default_role="readonly")
    movies = TableName("public", "movies")
    store.grant([Grant("analysts", "SELECT", "TABLE", "public", "movies")])
    people: list[tuple[str, list[str]]] = [("analysts", []), ("carol", ["analysts"])]
    named, member = (login.by_token(issuer.token(sub=sub, groups=groups)) for sub, groups in people)
    assert Rights.of(member, store.snapshot()).may("SELECT", movies)
    with pytest.raises(PermissionDeniedError, match="GRANT SELECT ON TABLE movies TO readonly"):
        Rights.of(named, store.snapshot()).check("SELECT", movies)
    with pytest.raises(InvalidInputError, match="'analysts' is taken"):
        store.add_user(User("analysts", "readonly"))
    store.add_user(User("carol", "readonly", linked=True), again=True)
    store.grant([Grant("carol", "SELECT", "TABLE", "public", "movies")])
    assert Rights.of(login.by_token(issuer.token(role="readonly")), store.snapshot()).may("SELECT", movies)


@pytest.mark.parametrize(
    "claims",
    [{"exp": 1.0}, {"iss": "other"}, {"aud": "other"}, {"sub": ""}, {"sub": "admin"}, {"sub": "local"}, {"sub": "eu"}],
)
def test_claims_that_do_not_hold(store: AccessStore, issuer: Issuer, claims: dict[str, Any]) -> None:
    """An expired token, those of others, and names that mean something else here."""
    with pytest.raises(UnauthenticatedError):
        _signed(store, issuer).by_token(issuer.token(role="admin", **claims))


def test_forged_signatures(store: AccessStore, issuer: Issuer) -> None:
    """No signature, one of a shared secret, and one of a key that is not in the set."""
    login = _signed(store, issuer)
    claims = {"sub": "carol", "role": "admin", "iss": "idp", "aud": "flightllm", "exp": time.time() + 60}
    key = ec.generate_private_key(ec.SECP256R1())
    for forged in (
        jwt.encode(claims, "", algorithm="none"),
        jwt.encode(claims, "x" * 64, algorithm="HS256", headers={"kid": "k1"}),
        jwt.encode(claims, key, algorithm="ES256", headers={"kid": "k1"}),
        jwt.encode(claims, key, algorithm="ES256", headers={"kid": "k9"}),
        "a.b.c",
    ):
        with pytest.raises(UnauthenticatedError):
            login.by_token(forged)


def test_keys_rotate(store: AccessStore, issuer: Issuer) -> None:
    """A key set written anew is read anew; what the former key signed is void."""
    login = _signed(store, issuer)
    old = issuer.token(role="user")
    login.by_token(old)
    issuer.rotate("k2")
    assert login.by_token(issuer.token(role="user")).name == "carol"
    with pytest.raises(UnauthenticatedError):
        login.by_token(old)


def test_a_key_set_that_cannot_be_read(tmp_path: Path) -> None:
    """The server does not start without it."""
    with pytest.raises(ConfigError, match="cannot read the key set"):
        JwtClaims(AuthConfig(jwks=f"file:{tmp_path / 'absent.json'}"))


def test_certificates(store: AccessStore) -> None:
    """A certificate names a user of the server; a valid one of somebody else opens nothing."""
    login = Login(store, AuthConfig())
    assert login.by_certificate("alice").name == "alice"
    with pytest.raises(UnauthenticatedError, match="not a user of this server"):
        login.by_certificate("mallory")


def test_a_clock_that_jumps(store: AccessStore, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours forth expire what ends meanwhile; back, it holds until its end comes again, and no login for longer."""
    real, hours = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + hours * 3_600)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(time.time(), tz)

    for module in ("flightllm.access.login", "jwt.api_jwt"):
        monkeypatch.setattr(f"{module}.datetime", Clock)
    login = _signed(store, issuer, login_seconds=2 * 3_600)
    api_token = store.add_token("alice", expires=datetime.now(UTC) + timedelta(hours=2))
    store.change_user(replace(store.user("alice"), linked=True))
    credentials = [login.by_password("alice", PASSWORD)[1], api_token, issuer.token(sub="alice", exp=real() + 7_200)]

    def valid() -> list[bool]:
        found = []
        for credential in credentials:
            try:
                found.append(login.by_token(credential).name == "alice")
            except UnauthenticatedError:
                found.append(False)
        return found

    for hours, expected in ((1, True), (3, False), (-1, True), (1.9, True), (2.1, False)):
        assert valid() == [expected] * 3, hours
    hours = 1_000
    far = login.by_password("alice", PASSWORD)[1]
    hours = 0
    with pytest.raises(UnauthenticatedError, match="log in again"):
        login.by_token(far)
