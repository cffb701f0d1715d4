"""Options for secrets take references alone, and are never shown."""

import pytest

from flightllm.common.redaction import redacted
from flightllm.engines.secrets import holds_secret, keep_secrets, shown_address, shown_options


@pytest.mark.parametrize(
    ("option", "value", "holds"),
    [
        ("api_key", "sk-1", True),
        ("api_key", "env:", True),
        ("api_key", 1234, True),
        ("hf_token", "x", True),
        ("client_secret", "x", True),
        ("password", "x", True),
        ("authorization", "Bearer x", True),
        ("base_url", "https://me:pass@host/v1", True),
        ("base_url", "https://host/v1?api-key=x", True),
        ("base_url", "https://host/v1?sig=x", True),
        ("base_url", "https://host/v1?code=x", True),
        ("base_url", "http://me:p/w@host/v1", True),
        ("base_url", "http:/me:pass@host/v1", True),
        ("base_url", "http:///me:pass@host/v1", True),
        ("base_url", "http//me:pass@host/v1", True),
        ("base_url", "me:pass@host/v1", True),
        ("base_url", "host:80/v1?key=x", True),
        ("proxy", "me:pass@host", True),
        ("base_url", "ftp:host/v1", False),
        ("proxy", "proxy:1", False),
        ("kv_events", "ipc:///tmp/me@work/events", False),
        ("kv_events", "tcp://me:pass@host:1", True),
        ("model", "me:v1@host", False),
        ("signature", "x", True),
        ("x-auth", "x", True),
        ("base_url", "http://[::1]:8000/@scope", False),
        ("code", "x", False),
        ("design", "x", False),
        ("api_key", "env:NAME", False),
        ("api_key", "file:/run/key", False),
        ("api_key_env", "", False),
        ("base_url", "https://host/v1?api-version=1", False),
        ("base_url", "http://[half", False),
        ("tokens_per_minute", 5, False),
        ("model", "gpt", False),
    ],
)
def test_holds_secret(option: str, value: object, holds: bool) -> None:
    """Options for secrets take references alone, and addresses have no secrets in them."""
    assert holds_secret(option, value) is holds


def test_shown() -> None:
    """Of secrets only where they come from is shown, at any depth."""
    options = {
        "api_key": "env:NAME",
        "api_key_file": "/run/key",
        "timeout": 3,
        "base_url": "http://a:b@h",
        "engine_args": {"hf_token": "x", "seed": 1},
    }
    assert shown_options(options) == {
        "api_key": "env:…",
        "api_key_file": "hidden",
        "timeout": 3,
        "base_url": "hidden",
        "engine_args": {"hf_token": "hidden", "seed": 1},
    }


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://me:pass@host:8000/v1", "http://host:8000/v1"),
        ("https://host/v1?api-key=x&api-version=1", "https://host/v1?api-version=1"),
        ("http://host:8000/v1?api-version=1", "http://host:8000/v1?api-version=1"),
        ("http://[half", "http://[half"),
        ("http://me:pass@[half/v1?sig=x", "http://[half/v1"),
        ("me:pass@host/v1", "host/v1"),
        ("http:/me:pass@host/v1", "http:/host/v1"),
        ("http:///me:pass@host/v1", "http:///host/v1"),
        ("https:me:pass@host/v1", "host/v1"),
        ("http//me:pass@host/v1", "http//host/v1"),
        ("host:80/v1?key=x", "host:80/v1"),
        ("file:///home/me@work/x.csv", "file:///home/me@work/x.csv"),
        ("https://me:p/a?s#s@host/v1", "https://host/v1"),
        ("https://host/@scope/x.csv", "https://host/@scope/x.csv"),
        ("https://host/x.csv#access_token=x", "https://host/x.csv"),
        ("https://b/x.csv?sv=1&sig=a%2Bb", "https://b/x.csv?sv=1"),
        (
            "https://b/x.csv?X-Amz-Date=1&X-Amz-Credential=x&X-Amz-Signature=x&X-Amz-Security-Token=x",
            "https://b/x.csv?X-Amz-Date=1",
        ),
        ("https://b/x.csv?Signature=x&code=y", "https://b/x.csv"),
    ],
)
def test_shown_address(address: str, shown: str) -> None:
    """An address is shown without the secrets in it."""
    assert shown_address(address) == shown


@pytest.mark.parametrize(
    "options",
    [
        {"organization": "production", "project": "customers"},
        {"organization": "org-reports24", "project": "reports_2024"},
        {"headers": {"X-Team": "customers", "X-Part": "the-team_of reports", "X-Zone": "eu.production"}},
        {"query": {"team": "customers", "part": "production"}},
        {"headers": {"X-Team": "default", "Accept": "application/json", "User-Agent": "client-1.2.3"}},
        {"headers": {"anthropic-version": "2024-10-21", "X-Kind": "application/json"}},
        {"query": {"api-version": "2024-10-21", "mode": "column"}},
        {"extra_body": {"backend": "xgrammar", "model": "gpt-4o-mini-2024-07-18", "note": "production"}},
    ],
)
def test_ordinary_words_stay(options: dict[str, object]) -> None:
    """Words that errors need are no secrets, although an option has them."""
    text = "customers the-team_of reports eu.production org-reports24 reports_2024 default application/json"
    text += " client-1.2.3 2024-10-21 column xgrammar gpt-4o-mini-2024-07-18 production"
    keep_secrets(options)
    assert redacted(text) == text


@pytest.mark.parametrize(
    ("options", "secret"),
    [
        ({"organization": "canary0123456789"}, "canary0123456789"),
        ({"project": "sk-canarycanary1"}, "sk-canarycanary1"),
        ({"headers": {"X-Team": "canary-word-of-a-team1"}}, "canary-word-of-a-team1"),
        ({"extra_body": {"deep": [{"plain": "sk-canarycanary2"}]}}, "sk-canarycanary2"),
        ({"extra_body": {"plain": "canary0123456789abcdef"}}, "canary0123456789abcdef"),
        ({"extra_body": '{"plain": "canary0123456789fedcba"}'}, "canary0123456789fedcba"),
    ],
)
def test_values_like_keys_are_hidden(options: dict[str, object], secret: str) -> None:
    """A value that looks like a key is hidden, whatever its name, in errors and in `system.models`."""
    keep_secrets(options)
    assert redacted(f"got {secret}") == "got ***"
    assert secret not in str(shown_options(options))
