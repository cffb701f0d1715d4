"""AI functions as other vendors spell them."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.dialect.vendors.arguments import arguments
from flightllm.dialect.vendors.calls import find_calls
from flightllm.dialect.vendors.names import named
from flightllm.dialect.vendors.paths import path
from flightllm.dialect.vendors.refused import refuse


def vendor_calls(source: Source) -> Iterator[Edit]:
    """`SELECT AI.GENERATE(('Sum up: ', body)).result` → `SELECT ai_gen(('Sum up: ' || body))`.

    Raises:
        SqlError: a call would give other values than its vendor's; says what to write.
    """
    for call in find_calls(source):
        refuse(call)
        yield from arguments(call)
        yield from path(call)
        yield from named(call)
