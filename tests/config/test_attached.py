"""Sections of attached databases."""

from pathlib import Path

import pytest

from flightllm.config import AttachedConfig, Config
from flightllm.errors import ConfigError


def read(tmp_path: Path, text: str) -> Config:
    """Read a configuration."""
    path = tmp_path / "server.toml"
    path.write_text(text)
    return Config.load(path)


def test_sections(tmp_path: Path) -> None:
    """The type follows from the address, and a file's path begins at the folder of the configuration."""
    config = read(tmp_path, '[attached.crm]\nurl = "env:CRM"\ntype = "postgres"\n[attached.s]\nurl = "s.sqlite"\n')
    assert config.attached["crm"] == AttachedConfig("env:CRM", "postgres")
    assert config.attached["s"] == AttachedConfig(str(tmp_path / "s.sqlite"), "sqlite")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[attached.crm]\nurl = "x"',
            r"\[attached.crm\]: its type does not follow from the address: write type postgres",
        ),
        ('[attached.crm]\nurl = "x"\ntype = "oracle"', r"\[attached.crm\]: there is no type 'oracle'"),
        ('[attached.crm]\ntype = "sqlite"', r"\[attached.crm\] url: write the address"),
        ('[attached.Crm]\nurl = "x.sqlite"', r"\[attached.Crm\]: the name of a database has small letters"),
        ('[attached.flightllm]\nurl = "x.sqlite"', "is not 'flightllm'"),
        ('[attached.crm]\nurl = "x.sqlite"\nuser = "me"', "takes no user"),
        ('[attached.crm]\nurl = "x.sqlite"\nttl_seconds = -1', "ttl_seconds: expected a number of at least 0"),
        ('[attached.crm]\nurl = "x.sqlite"\nconnect_seconds = 0', "connect_seconds: expected a whole number from 1"),
        ('[attached.crm]\nurl = "x.sqlite"\ncolour = "red"', "unknown key 'colour'"),
    ],
)
def test_wrong(tmp_path: Path, text: str, message: str) -> None:
    """A wrong section is told."""
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("url", "password", "secret"),
    [
        ("postgresql://me@h/d", None, False),
        ("postgresql://me:x@h/d", None, True),
        ("postgresql://h/d?user=me&password=x", None, True),
        ("postgresql://h/d", "env:X", False),
        ("postgresql://h/d", "x", True),
        ("postgresql://[::/d", None, True),
        ("env:X", None, False),
        ("host=h password=x", None, True),
        ("host=h user=x", None, False),
    ],
)
def test_secrets(url: str, password: str | None, secret: bool) -> None:
    """A configuration with a literal secret is known, so that nothing stores it."""
    assert AttachedConfig(url, "postgres", password=password).holds_secret is secret
