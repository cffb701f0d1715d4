"""Write the texts in `ai_evaluate('SELECT …', 'ai_filter(…)', 'label')` as SQL, so that later rules read them too."""

from collections.abc import Iterator

from flightllm.dialect.source import Source
from flightllm.dialect.text import Edit
from flightllm.sql.evaluations import plain_arguments


def evaluations(source: Source) -> Iterator[Edit]:
    """Rewrite `ai_evaluate(t, 'f(a)', 'b')` as `ai_evaluate((SELECT * FROM t), f(a), b)`."""
    for start, end, sql in plain_arguments(source):
        yield Edit(start, end, sql)
