"""Functions that only rewritten texts call."""

from importlib import import_module
from pkgutil import iter_modules

from flightllm import functions
from flightllm.functions.internal import INTERNAL
from flightllm.functions.own import OWN_PREFIX, OwnFunction


def test_every_module_is_gathered() -> None:
    """The list has the functions of each module that lists some, with one name each."""
    modules = [import_module(f"{functions.__name__}.{one.name}") for one in iter_modules(functions.__path__)]
    listed = [one for module in modules for one in getattr(module, "FUNCTIONS", ()) if isinstance(one, OwnFunction)]
    assert {id(one) for one in listed} == {id(one) for one in INTERNAL}
    names = [one.name for one in INTERNAL]
    assert len(set(names)) == len(names)
    assert [name for name in names if not name.startswith(OWN_PREFIX)] == []
