"""EXPLAIN's price against the bill of endpoints that charge by each provider's published rules."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flightllm.config import Config, EngineConfig
from flightllm.errors import BudgetExceededError
from flightllm.session.database import Database
from flightllm.session.session import Session
from tests.billing_endpoint import Billing, Running, billing_endpoint
from tests.databases import ask
from tests.vendor_tokenizers import path_of

pytest.importorskip("genai_prices", reason="the extra 'openai' is not installed")

PROVIDERS = {
    "openai": ("openai", "gpt-5.4-mini", Billing(1_024, 128, 300, 0.75, 0.075, 4.5, around=(3, 4, 1), schema=True)),
    "openai 5.6": (
        "openai",
        "gpt-5.6-luna",
        Billing(1_024, 1, 1_800, 0.2, 0.02, 1.2, 0.25, whole=True, around=(3, 4, 1), schema=True),
    ),
    "anthropic": (
        "anthropic",
        "claude-sonnet-4-5",
        Billing(1 << 40, 1, 300, 3.0, 0.3, 15.0, report="anthropic", around=(4, 3, 4)),
    ),
    "gemini": ("gemini", "gemini-2.5-flash", Billing(2_048, 1, 300, 0.3, 0.03, 2.5, around=(1, 0, 0), schema=True)),
    "deepseek": (
        "deepseek",
        "deepseek-chat",
        Billing(64, 64, 3_600, 0.135, 0.035, 0.55, report="deepseek", around=(2, 1, 1), units=True),
    ),
    "mistral": (
        "mistral",
        "mistral-small-latest",
        Billing(64, 64, 300, 0.15, 0.015, 0.6, key=True, around=(1, 2, 1), schema=True),
    ),
}
TOKENIZERS = {
    "openai": "gpt4o",
    "openai 5.6": "gpt4o",
    "anthropic": "claude",
    "gemini": "gemini",
    "deepseek": "deepseek_v3",
    "mistral": "llama3",
}
"""The tokenizers by which the endpoints bill; Mistral's own is not among them, and cuts texts in the same way."""
MOST_MISS = 0.2
"""The most that a price of one query is off before any answer of its endpoint is known."""
MOST_WARM_MISS = {"filter and label": 0.15}
"""A forecast draws the rows that pass a filter, so it cannot know which texts the second call gets."""
LONG = " ".join(f"Rule {n}: judge every text with care, and follow the guide of the shop." for n in range(170))
"""Instructions of about 2,500 tokens."""
REVIEW = (
    "'The ' || value || ' of us came to the shop and asked for help with a broken lamp, which took '"
    " || value || ' days to be mended.'"
)
ROWS, GUIDES = "generate_series(1, 60) AS g(value)", "generate_series(0, 2) AS g(value)"
QUERIES = {
    "filter": "SELECT id FROM t WHERE ai_filter('Is it about the service?', review)",
    "filter, long rules": f"SELECT id FROM t WHERE ai_filter('{LONG} Is it good?', review)",
    "classify": "SELECT ai_classify(review, ['good', 'bad', 'mixed']) FROM t",
    "gen": "SELECT ai_gen('Say it in other words.', review) FROM t",
    "gen, limit": "SELECT ai_gen('Say it briefly.', review) FROM t LIMIT 20",
    "gen, long rules": f"SELECT ai_gen('{LONG} Answer the writer.', review) FROM t",
    "gen, long rules, limit": f"SELECT ai_gen('{LONG} Thank the writer.', review) FROM t LIMIT 30",
    "two calls": "SELECT ai_filter('Is it angry?', review), ai_gen('Name the product.', review) FROM t",
    "join, long field": "SELECT ai_gen('Does the text fit the guide?', guide, review) FROM t JOIN g ON t.kind = g.kind",
    "score": "SELECT ai_score('How happy is it?', review) FROM t",
    "sentiment": "SELECT ai_sentiment(review) FROM t",
    "extract": "SELECT ai_extract(review, ['product', 'days']) FROM t",
    "summary": "SELECT ai_summarize(review, max_words => 30) FROM t",
    "same texts": "SELECT ai_classify('The shop has ' || kind || ' lamps left.', ['few', 'many']) FROM t",
    "filter and label": "SELECT ai_classify(review, ['a', 'b']) FROM t WHERE ai_filter('Was it mended?', review)",
    "German": "SELECT ai_filter('Geht es um Technik?', german) FROM w",
    "Chinese": "SELECT ai_classify(chinese, ['好', '坏']) FROM w",
    "Russian": "SELECT ai_sentiment(russian) FROM w",
    "code": "SELECT ai_gen('Say what the function does.', code) FROM w",
    "JSON": "SELECT ai_extract(document, ['customer', 'city']) FROM w",
}
TEXTS = {
    "german": (
        "Der Kundendienst hat die Waschmaschine erst nach drei Wochen repariert, und die Rechnung war doppelt so hoch.",
        "Wir haben gestern Abend im Garten gesessen und über die Ferien gesprochen.",
        "Die Bundesregierung will den Ausbau der Stromnetze beschleunigen; die Länder fordern mehr Geld.",
        "Leider fehlte im Paket das Ladegerät, obwohl es in der Bestellbestätigung steht.",
    ),
    "chinese": (
        "快递三天就到了，包装完好，客服也很耐心，下次还会在这家店购买。",
        "这台洗衣机声音太大，用了两周就坏了，要求退货却没有人理我。",
        "酒店离地铁站很近，早餐一般，但是房间干净，价格也合理。",
        "会议推迟到下星期四上午十点，请大家提前准备好材料。",
    ),
    "russian": (
        "Доставка задержалась на неделю, но сам товар оказался лучше, чем я ожидал.",
        "Завтра в городе ожидается сильный дождь, поэтому поездку лучше отложить.",
        "Служба поддержки ответила только на третий день и не смогла помочь.",
        "Мы купили билеты заранее и заняли хорошие места у окна.",
    ),
    "code": (
        "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n    return total / 2",
        "function once(run) {\n  let done = false;\n  return (...args) => done || run(...args);\n}",
        "SELECT c.name, sum(o.total) AS spent FROM customers c JOIN orders o ON o.customer_id = c.id\nGROUP BY c.name",
        "int gcd(int a, int b) {\n    while (b != 0) {\n        int r = a % b;\n        a = b;\n    }\n}",
    ),
    "document": (
        '{"id": 48213, "customer": {"name": "Ada Stern", "city": "Lyon"}, "lines": [{"sku": "LMP-20", "n": 2}]}',
        '{"id": 99120, "customer": {"name": "Omar Reis", "city": "Porto"}, "paid": true, "total": 118.40}',
        '{"event": "returned", "at": "2026-03-14T09:21:00Z", "order": 71002, "customer": "Kim Lund", "city": "Oslo"}',
        '{"id": 5, "customer": null, "city": "Graz", "tags": ["urgent", "b2b"], "note": "call before noon"}',
    ),
}
"""Texts of other languages and kinds, by column."""


@contextmanager
def opened(name: str, folder: Path, tokenizer: str = "") -> Iterator[tuple[Session, Running]]:
    """Open a session with tables, whose model is at a known provider's endpoint."""
    provider, model, billing = PROVIDERS[name]
    with running(provider, model, replace(billing, tokenizer=tokenizer), folder) as found:
        yield found


@contextmanager
def running(provider: str, model: str, billing: Billing, folder: Path) -> Iterator[tuple[Session, Running]]:
    """Open a session with tables, whose model is at an endpoint that bills like this."""
    with served(provider, model, billing, folder) as (_, session, endpoint):
        yield session, endpoint


@contextmanager
def served(provider: str, model: str, billing: Billing, folder: Path) -> Iterator[tuple[Database, Session, Running]]:
    """Open a database with a session and tables, whose model is at an endpoint that bills like this."""
    key = folder / "key"
    key.write_text("x")
    with billing_endpoint(billing) as endpoint:
        options = {"base_url": endpoint.url, "provider": provider, "api_key": f"file:{key}"}
        engine = EngineConfig("openai", model, 4, options)
        with (
            closing(Database.open(Config(engine=engine, data_folder=folder))) as database,
            closing(database.session()) as session,
        ):
            session.update(f"CREATE TABLE t AS SELECT value AS id, value % 3 AS kind, {REVIEW} AS review FROM {ROWS}")
            guide = f"'Guide ' || value || ': {LONG}'"
            session.update(f"CREATE TABLE g AS SELECT value AS kind, {guide} AS guide FROM {GUIDES}")
            columns = ", ".join(f"{name} VARCHAR" for name in TEXTS)
            session.update(f"CREATE TABLE w ({columns})")
            together = list(zip(*TEXTS.values(), strict=True))
            rows = [tuple(f"{text} ({turn})" for text in texts) for turn in range(8) for texts in together]
            session.update(f"INSERT INTO w VALUES {', '.join(map(_literals, rows))}")
            yield database, session, endpoint


def _literals(texts: tuple[str, ...]) -> str:
    return "(" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + ")"


def price(session: Session, sql: str) -> float:
    """Return the price that EXPLAIN predicts for a run that reads no kept answers."""
    [row] = ask(session, f"EXPLAIN (FORMAT json) {sql}", cache="off").rows
    return float(json.loads(row["plan"])["total"]["predicted"]["price"])


def misses(
    name: str, folder: Path, queries: dict[str, str], tokenizer: str = ""
) -> Iterator[tuple[str, bool, float, float]]:
    """Yield each query, whether it is warm, and its predicted and billed price."""
    with opened(name, folder, tokenizer) as (session, endpoint):
        for label, sql in queries.items():
            for warm in (False, True):
                predicted, before = price(session, sql), endpoint.dollars
                ask(session, sql, cache="off")
                yield label, warm, predicted, endpoint.dollars - before


@pytest.mark.slow
@pytest.mark.parametrize("name", PROVIDERS)
def test_explain_and_the_bill(name: str, tmp_path: Path) -> None:
    """Cold, all queries together are within 10 % of the bill; warm, each is within 3 %."""
    _check_prices(list(misses(name, tmp_path, QUERIES, str(path_of(TOKENIZERS[name])))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openai", "anthropic", "mistral"])
def test_another_tokenizer(name: str, tmp_path: Path) -> None:
    """The same is true where the endpoint's tokenizer is none of those by which the estimates were made."""
    _check_prices(list(misses(name, tmp_path, QUERIES, str(path_of("qwen3")))))


def _check_prices(found: list[tuple[str, bool, float, float]]) -> None:
    cold = [(label, predicted, billed) for label, warm, predicted, billed in found if not warm]
    assert sum(p for _, p, _ in cold) == pytest.approx(sum(b for *_, b in cold), rel=0.1)
    assert {label: p / b for label, p, b in cold if abs(p / b - 1) > MOST_MISS} == {}
    warm = [(label, predicted / billed) for label, warm, predicted, billed in found if warm]
    assert {label: ratio for label, ratio in warm if abs(ratio - 1) > MOST_WARM_MISS.get(label, 0.03)} == {}


@pytest.mark.parametrize("name", ["openai", pytest.param("openai 5.6", marks=pytest.mark.slow)])
def test_a_shared_start(name: str, tmp_path: Path) -> None:
    """A long start is charged for once, or with each prompt: as the provider says."""
    label = "gen, long rules, limit"
    found = list(misses(name, tmp_path, {label: QUERIES[label].replace("LIMIT 30", "LIMIT 6")}))
    assert {warm: p / b for _, warm, p, b in found if abs(p / b - 1) > (0.03 if warm else 0.1)} == {}


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"usage": "none"}, {"usage": "zeros"}, {"fails": 5}], ids=str)
def test_max_cost(changed: dict[str, Any], tmp_path: Path) -> None:
    """The bill is never above `max_cost`, whatever the endpoint reports, and if answers are lost."""
    provider, model, billing = PROVIDERS["openai 5.6"]
    with running(provider, model, replace(billing, **changed), tmp_path) as (session, endpoint):
        sql = QUERIES["gen, long rules"].replace("FROM t", "FROM t LIMIT 12")
        predicted = price(session, sql)
        ask(session, sql, max_cost=str(predicted * 1.1))
        assert 0 < endpoint.dollars <= predicted * 1.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed", [{"words": 60}, {"usage": "none", "words": 60}, {"usage": "zeros", "fails": 3}], ids=str
)
@pytest.mark.parametrize("name", PROVIDERS)
def test_max_cost_of_two_users(name: str, changed: dict[str, Any], tmp_path: Path) -> None:
    """Two queries at once stay within their `max_cost` by each provider's rules, with long and with lost answers."""
    provider, model, billing = PROVIDERS[name]
    with served(provider, model, replace(billing, **changed), tmp_path) as (database, session, endpoint):
        sql = QUERIES["gen, long rules"]
        limit = 1.1 * price(session, sql)
        with closing(database.session()) as other, ThreadPoolExecutor(2) as users:
            asked = [users.submit(_ask_within, one, sql, limit) for one in (session, other)]
            for one in asked:
                one.result()
        assert 0 < endpoint.dollars <= 2 * limit


def _ask_within(session: Session, sql: str, limit: float) -> None:
    with suppress(BudgetExceededError):
        ask(session, sql, max_cost=str(limit), cache="off")
