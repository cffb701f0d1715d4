"""The page on quality shows the shares that the planner gives."""

from contextlib import closing
from pathlib import Path

from flightllm.config import EmbeddingConfig
from tests.databases import SAMPLES, open_database, plan_lines
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "how-to/quality.md"


def test_shares(tmp_path: Path) -> None:
    """EXPLAIN of the page's query has the lines that the page shows."""
    embedding = EmbeddingConfig("fake", "words")
    with closing(open_database(tmp_path, tables=SAMPLES, embedding=embedding)) as database:
        session = database.session()
        queries = [block.text.strip().removesuffix(";") for block in blocks(PAGE, "sql")]
        for sql in queries[: queries.index(next(one for one in queries if one.startswith("EXPLAIN")))]:
            if session.is_update(sql):
                session.update(sql)
        (explained,) = (sql for sql in queries if sql.startswith("EXPLAIN SELECT"))
        (shown,) = blocks(PAGE, "text")
        assert plan_lines(session, explained.removeprefix("EXPLAIN "))["quality"] == shown.text.strip()
