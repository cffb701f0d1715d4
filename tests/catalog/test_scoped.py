"""What reaches the tables of others by way of a restricted principal's catalog."""

from pathlib import Path

import pytest

from flightllm.access.rights import Rights
from flightllm.access.store import AccessSnapshot
from flightllm.catalog import Catalog
from flightllm.catalog.closing import closed
from flightllm.catalog.scoped import SHARED, PrincipalScopes, ScopedCatalog
from flightllm.common.principal import Principal
from flightllm.config import LimitsConfig
from flightllm.errors import PermissionDeniedError

WITHHELD = {"close", "open_file", "register_opened", "create_external"}
"""Methods of the catalog that no statement of a user reaches; a new one is here, in `SHARED`, or written anew."""


def test_every_method_was_thought_about() -> None:
    """Each public method of the catalog is restricted, withheld or shared on purpose; the lists have no other names."""
    public = {name for name in vars(Catalog) if not name.startswith("_")}
    own = {name for name in vars(ScopedCatalog) if not name.startswith("_")}
    refusing = {name for name in own if (getattr(vars(ScopedCatalog)[name], "__doc__", "") or "").startswith("Refuse")}
    assert public - own == SHARED
    assert refusing == WITHHELD


def test_a_new_method_is_refused() -> None:
    """One that the catalog gets later, and nobody has thought about, does nothing for a restricted principal."""

    class Wider(Catalog):
        def read_everything(self) -> str:
            return "all rows"

    @closed(shared={"reading"})
    class Narrow(Wider):
        def __init__(self) -> None:
            pass

    with pytest.raises(PermissionDeniedError, match="only admins can do this"):
        Narrow().read_everything()
    with pytest.raises(PermissionDeniedError, match="only admins can do this"):
        Narrow().ingest("t", None, [])
    assert Narrow.reading is Catalog.reading


def test_what_is_withheld(tmp_path: Path) -> None:
    """A restricted principal's catalog neither closes the server's nor registers files."""
    catalog = Catalog(LimitsConfig(), None, tmp_path)
    mine = PrincipalScopes(catalog).of(Rights.of(Principal("ann", "user"), AccessSnapshot()))
    for call in (mine.close, lambda: mine.open_file("t", tmp_path)):
        with pytest.raises(PermissionDeniedError, match="only admins can do this"):
            call()
    assert catalog.tables() == []
    catalog.close()
