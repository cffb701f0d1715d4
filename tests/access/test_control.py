"""The rights of users that a server keeps."""

from pathlib import Path

import pytest

from flightllm.access.store import User
from flightllm.common.principal import Principal
from flightllm.errors import UnauthenticatedError
from flightllm.sql.grants import Grant
from tests.databases import open_database


def test_rights_are_kept_for_some_principals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights are computed once for a principal in use, and only those of the latest principals are kept."""
    monkeypatch.setattr("flightllm.access.control._KEPT_RIGHTS", 3)
    database = open_database(tmp_path)
    access = database.access
    for number in range(6):
        access.store.add_user(User(f"u{number}", "user"))
    principals = [access.store.user(f"u{number}").principal for number in range(6)]
    first = access.rights(principals[0])
    for principal in principals[1:]:
        access.rights(principal)
        assert access.rights(principals[0]) is first
    second = access.rights(principals[1])
    assert second == access.rights(principals[1])
    for principal in principals[2:5]:
        access.rights(principal)
    assert access.rights(principals[0]) is not first
    access.store.grant([Grant("u0", "SELECT", "TABLE", "public", "t")])
    assert access.rights(principals[0]) is not access.rights(principals[1])
    with pytest.raises(UnauthenticatedError):
        access.rights(Principal("nobody", "user"))
    database.close()
