"""The talk of a connection up to its login: startup parameters, and the proof of the user's identity."""

import base64
import binascii
import secrets
import shlex

from flightllm.access.scram import ScramVerifier
from flightllm.common.principal import Principal
from flightllm.errors import BusyError, UnauthenticatedError
from flightllm.postgres.calls import PostgresCall
from flightllm.postgres.conversation import Conversation
from flightllm.postgres.failures import WireError, fatal
from flightllm.postgres.front import Front
from flightllm.postgres.messages import ASK_PASSWORD, AUTHENTICATED, PROTOCOL, Body, ask_sasl, negotiate, sasl
from flightllm.postgres.talk import Link

_SCRAM, _SCRAM_PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
_ENCRYPT = "connect with TLS (sslmode=require)"
_PLAIN = "connect with TLS (sslmode=require), or from the server's own machine"


class LoginTalk:
    """Answers the messages before the login, in the order of the protocol."""

    def __init__(self, link: Link, front: Front, peer: str, *, encrypted: bool, is_local: bool) -> None:
        self._link = link
        self._front = front
        self._peer = peer
        self._encrypted = encrypted
        self._is_local = is_local
        self._parameters: dict[str, str] = {}
        self._scram: Scram | None = None
        self._begun = False

    def answer(self, kind: bytes, body: bytes) -> Conversation | None:
        """Answer one message; return the conversation once the user is known.

        Raises:
            WireError: the login is refused, which ends the connection.
        """
        if not self._begun:
            self._begun = True
            return self._startup(Body(body))
        if kind != b"p":
            raise fatal("08P01", "expected a password or SASL response")
        try:
            return self._proof(body)
        except UnauthenticatedError as error:
            raise fatal("28P01", str(error)) from error
        except BusyError as error:
            raise fatal("53300", str(error)) from error

    def _startup(self, body: Body) -> Conversation | None:
        version = body.int32()
        if version >> 16 != PROTOCOL >> 16:
            raise fatal(
                "0A000", f"unsupported frontend protocol {version >> 16}.{version & 0xFFFF}: server supports 3.0"
            )
        while name := body.text():
            self._parameters[name] = body.text()
        body.end()
        unknown = [name for name in self._parameters if name.startswith("_pq_.")]
        if version != PROTOCOL or unknown:
            self._link.send(negotiate(unknown))
        self._check_open()
        user = self._parameters.get("user", "")
        if not user:
            raise fatal("28000", "no PostgreSQL user name specified in startup packet")
        if not (self._encrypted or self._is_local or self._front.clear):
            raise fatal("28000", f'no encryption: user "{user}" connects from another machine', _ENCRYPT)
        login = self._front.core.login
        if login.is_open:
            return self._enter(login.anonymous())
        verifier = login.verifier(user)
        if verifier is not None:
            binding = self._front.binding if self._encrypted else None
            self._scram = Scram(user, verifier, binding)
            self._link.send(ask_sasl([_SCRAM_PLUS, _SCRAM] if binding else [_SCRAM]))
        elif self._encrypted or self._is_local:
            self._link.send(ASK_PASSWORD)
        else:
            raise fatal("28000", "this login sends the password or token itself, which needs encryption", _PLAIN)
        return None

    def _check_open(self) -> None:
        """Check that the server takes one more connection."""
        if self._front.core.draining.is_set():
            raise fatal("57P03", "the server is shutting down; connect again in a moment")
        if self._front.is_full:
            raise fatal(
                "53300", f"sorry, too many clients already; [postgres] connections = {self._front.most} is the most"
            )

    def _proof(self, body: bytes) -> Conversation | None:
        login, user = self._front.core.login, self._parameters["user"]
        if self._scram is None:
            message = Body(body)
            password = message.text()
            message.end()
            if not password:
                raise UnauthenticatedError("empty password returned by client")
            return self._enter(login.by_secret(user, password))
        if not self._scram.begun:
            self._link.send(sasl(self._scram.first(Body(body)), final=False))
            return None
        proof, signed = self._scram.last(body)
        principal = login.by_proof(user, self._scram.verifier, proof, signed)
        self._link.send(sasl(self._scram.signature(signed), final=True))
        return self._enter(principal)

    def _enter(self, principal: Principal) -> Conversation:
        conversation = Conversation(
            self._front.core,
            self._link,
            PostgresCall(principal, self._peer),
            has_tls=self._front.tls is not None,
        )
        self._link.send(AUTHENTICATED)
        try:
            conversation.begin(self._parameters["user"], self._parameters, options(self._parameters.get("options", "")))
        except BaseException:
            conversation.close()
            raise
        return conversation


def options(text: str) -> dict[str, str]:
    """Return the parameters in a client's command-line options, such as `-c name=value --name=value`.

    Raises:
        WireError: there are other options.
    """
    reader = shlex.shlex(text, posix=True)
    reader.whitespace_split, reader.quotes, reader.commenters = True, "", ""
    try:
        words = list(reader)
    except ValueError as error:
        raise fatal("42601", f"invalid command-line options: {text!r}") from error
    found = {}
    while words:
        word = words.pop(0)
        if word == "-c" and words:
            word = words.pop(0)
        elif word.startswith(("-c", "--")):
            word = word[2:]
        else:
            raise fatal("42601", f"invalid command-line argument for server process: {word}", "write -c name=value")
        name, equals, value = word.partition("=")
        if not equals:
            raise fatal("42601", f"-c {name} requires a value")
        found[name.replace("-", "_")] = value
    return found


class Scram:
    """One exchange of SCRAM-SHA-256; `binding` is the hash of the certificate, where a client can bind to it."""

    def __init__(self, user: str, verifier: ScramVerifier, binding: bytes | None) -> None:
        self.verifier = verifier
        self.begun = False
        self._user = user
        self._binding = binding
        self._header = ""
        self._bound = b""
        self._client_first = ""
        self._server_first = ""
        self._nonce = ""

    def first(self, message: Body) -> bytes:
        """Read the client's first message, and return the server's.

        Raises:
            WireError: the message is malformed, or wants a binding that the server does not have.
        """
        mechanism = message.text()
        data = message.value()
        message.end()
        if mechanism not in (_SCRAM, _SCRAM_PLUS) or (mechanism == _SCRAM_PLUS and self._binding is None):
            raise fatal("08P01", "client selected an invalid SASL authentication mechanism")
        try:
            text = (data or b"").decode()
            flag, authzid, rest = text.split(",", 2)
            _, nonce = (part[2:] for part in rest.split(",")[:2])
        except ValueError as error:
            raise _malformed() from error
        if not rest.startswith("n=") or ",r=" not in rest or not nonce or authzid:
            raise _malformed()
        if (mechanism == _SCRAM_PLUS) != flag.startswith("p="):
            raise _malformed()
        if flag.startswith("p=") and flag != "p=tls-server-end-point":
            raise fatal("08P01", "unsupported SCRAM channel-binding type")
        if flag == "y" and self._binding is not None:
            raise fatal(
                "28000", "SCRAM channel binding negotiation error", "somebody removed SCRAM-SHA-256-PLUS on the way"
            )
        self.begun = True
        self._header = f"{flag},{authzid},"
        self._bound = self._binding if self._binding is not None and flag.startswith("p=") else b""
        self._client_first = rest
        self._nonce = nonce + base64.b64encode(secrets.token_bytes(18)).decode()
        salt = base64.b64encode(self.verifier.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self.verifier.iterations}"
        return self._server_first.encode()

    def last(self, data: bytes) -> tuple[bytes, bytes]:
        """Read the client's last message; return its proof, and the messages that the proof signs.

        Raises:
            WireError: the message is malformed, or belongs to another exchange or connection.
        """
        try:
            text = data.decode()
            without, _, proof = text.rpartition(",p=")
            channel, nonce = without.split(",")[:2]
            decoded = base64.b64decode(proof, validate=True)
            bound = base64.b64decode(channel.removeprefix("c="), validate=True)
        except (ValueError, binascii.Error) as error:
            raise _malformed() from error
        if bound != self._header.encode() + self._bound:
            raise fatal("28000", "SCRAM channel binding check failed")
        if nonce != f"r={self._nonce}":
            raise fatal("28000", "the SCRAM exchange has another nonce than the server sent")
        return decoded, f"{self._client_first},{self._server_first},{without}".encode()

    def signature(self, signed: bytes) -> bytes:
        """Return the server's last message."""
        return b"v=" + base64.b64encode(self.verifier.signature(signed))


def _malformed() -> WireError:
    return fatal("08P01", "malformed SCRAM message")
