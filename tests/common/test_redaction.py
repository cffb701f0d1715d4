"""The texts that leave the process hold no secret, in whatever form."""

import base64
import json
from contextlib import suppress
from urllib.parse import quote

import pytest

from flightllm.common.redaction import keep_secret, kept_if_done, redacted, redacted_start
from flightllm.common.text import excerpt

_SECRET = "sk-canary/one+two=='\"\\end"


@pytest.mark.parametrize(
    "form",
    [
        _SECRET,
        repr(_SECRET),
        repr(f"Bearer {_SECRET}".encode()),
        json.dumps({"key": _SECRET}),
        quote(_SECRET, safe=""),
        quote(_SECRET, safe="").lower(),
        f"AUTHORIZATION: BEARER {_SECRET.upper()}",
        f"authorization: bearer {_SECRET.lower()}",
        *(base64.b64encode(f"{'u' * length}:{_SECRET}".encode()).decode() for length in range(3)),
        base64.urlsafe_b64encode(_SECRET.encode()).decode(),
        _SECRET.encode().hex(),
        f"'{_SECRET.replace(chr(39), chr(39) * 2)}'",
    ],
)
def test_no_form_of_a_secret_is_left(form: str) -> None:
    """A text that quotes, escapes or encodes a secret loses it."""
    keep_secret(_SECRET)
    shown = redacted(f"before {form} after")
    assert "***" in shown
    assert "canary" not in shown.lower()
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert form not in shown


def test_an_address_is_hidden_in_parts() -> None:
    """The password of an address is a secret by itself, the host is not."""
    keep_secret("http://someone:canary%2Fpass@proxy.example:8080")
    assert redacted("canary/pass canary%2Fpass proxy.example") == "*** *** proxy.example"


def test_other_words_beside_a_secret_stay() -> None:
    """The names and plain values of an address's parameters, and the words of a long secret, are no secrets."""
    keep_secret("postgres://someone:canary-pass@localhost/db?sslmode=require&application_name=reports&token=canary-1")
    keep_secret("canary of the production system")
    keep_secret("Bearer canary-bearer")
    plain = "sslmode require application_name reports someone localhost production system"
    assert redacted(f"{plain} canary-pass canary-1 canary-bearer") == f"{plain} *** *** ***"


def test_the_start_of_a_long_text() -> None:
    """A secret that a cut would divide is hidden whole, and one that shrinks the text pulls no other secret in."""
    keep_secret("canary-at-a-cut")
    assert redacted_start("x" * 10 + "canary-at-a-cut", 15) == "x" * 10 + "***"
    assert redacted_start("canary-at-a-cut canary-at-a-cut", 17) == "*** ***"
    assert redacted_start("canary-at-a-cut abcdef canary-at-a-cut", 20) == "*** abcd"
    assert redacted_start("short", 20) == "short"


def test_a_cut_leaves_no_beginning_of_a_secret() -> None:
    """An excerpt that ends within a secret does not show its start."""
    keep_secret("canary-at-the-end-of-an-excerpt")
    assert "canary" not in excerpt("x" * 290 + "canary-at-the-end-of-an-excerpt")


def test_short_texts_and_placeholders_stay() -> None:
    """A word such as `none` is no secret, and occurs in other texts."""
    keep_secret("none")
    keep_secret("ollama")
    assert redacted("none of ollama") == "none of ollama"


def test_a_trial_that_fails_hides_nothing() -> None:
    """The secrets of a block are known at its end, and only if it succeeds."""
    with suppress(ValueError), kept_if_done():
        keep_secret("canary-of-a-refusal")
        raise ValueError
    assert redacted("canary-of-a-refusal") == "canary-of-a-refusal"
    with kept_if_done():
        keep_secret("canary-of-a-success")
        assert redacted("canary-of-a-success") == "canary-of-a-success"
    assert redacted("canary-of-a-success") == "***"
