"""What `make.py` tells a server, and what it asks: each question is asked again by `test_earlier.py`."""

from typing import Final

MADE: Final = (
    "CREATE SCHEMA shop",
    (
        "CREATE TABLE notes AS SELECT * FROM (VALUES (1, 'likes tea', 'public'), (2, 'hates rain', 'secret'),"
        " (3, NULL, 'public'), (4, 'owns a cat', NULL), (5, 'drinks coffee', 'public')) AS v(id, text, kind)"
    ),
    # Several files, then rows that are written anew and rows that go.
    "CREATE TABLE changed AS SELECT value AS id, concat('row ', value) AS text FROM generate_series(1, 20) AS g(value)",
    "INSERT INTO changed VALUES (21, 'row 21'), (22, NULL)",
    "UPDATE changed SET text = concat(text, ' again') WHERE id % 5 = 0",
    "DELETE FROM changed WHERE id BETWEEN 7 AND 9",
    "INSERT INTO changed VALUES (23, 'row 23')",
    "CREATE TABLE empty (id BIGINT, text VARCHAR, price DECIMAL(10, 2))",
    'CREATE TABLE shop."Odd Name" AS SELECT 1 AS "Id", \'ä ß 漢 🙂\' AS "select"',
    "CREATE TABLE gone AS SELECT 1 AS a",
    "DROP TABLE gone",
    "CREATE VIEW per_kind AS SELECT kind, count(*) AS n FROM notes GROUP BY kind",
    "CREATE VIEW judged AS SELECT id, text, ai_filter('Is it about a drink? {text}', text) AS drink FROM notes",
    "CREATE MODEL small OPTIONS (engine 'fake', model 'small', max_in_flight 4, price_input 0.5, price_output 1)",
    "CREATE PROMPT drinks AS 'Is it a drink? {text}'",
    "CREATE OR REPLACE PROMPT drinks AS 'Does it name a drink? {text}'",
    (
        "CREATE TABLE docs AS SELECT * FROM (VALUES (1, 'a red apple', [1.0, 0.0, 0.0, 0.0]),"
        " (2, 'a green pear', [0.0, 1.0, 0.0, 0.0]), (3, NULL, NULL), (4, 'the stock market', [0.0, 0.0, 1.0, 0.0]),"
        " (5, 'apple pie for all', [0.9, 0.1, 0.0, 0.0]), (6, 'rain in the north', [0.0, 0.0, 0.1, 0.9]))"
        " AS v(id, name, place)"
    ),
    "CREATE VECTOR INDEX names ON docs(name)",
    "CREATE VECTOR INDEX graph ON docs(name) OPTIONS (type 'hnsw', metric 'l2', neighbors 4, columns 'id,name')",
    "CREATE VECTOR INDEX places ON docs(place) OPTIONS (type 'ivf', lists 1, metric 'ip')",
)
"""What is made before there are users."""
GRANTED: Final = (
    "GRANT SELECT ON TABLE notes TO analysts, bob",
    "GRANT SELECT, INSERT ON TABLE changed TO ann",
    "GRANT SELECT ON SCHEMA shop TO readonly",
    "GRANT USAGE ON PROMPT drinks TO ann",
    "GRANT CREATE ON SCHEMA public TO ann",
    "CREATE ROW FILTER ON notes TO analysts AS kind IS DISTINCT FROM 'secret'",
    "CREATE COLUMN MASK ON notes(text) TO bob AS concat('hidden from ', current_user)",
)
"""What the admin says of users."""
QUESTIONS: Final = (
    ("kinds", "root", "SELECT * FROM kinds ORDER BY id"),
    ("odd", "root", "SELECT * FROM odd ORDER BY id"),
    ("notes", "root", "SELECT * FROM notes ORDER BY id"),
    ("changed", "root", "SELECT * FROM changed ORDER BY id"),
    ("empty", "root", "SELECT * FROM empty"),
    ("names", "root", 'SELECT * FROM shop."Odd Name"'),
    ("docs", "root", "SELECT * FROM docs ORDER BY id"),
    ("view", "root", "SELECT * FROM per_kind ORDER BY kind"),
    ("ai_view", "root", "SELECT * FROM judged ORDER BY id"),
    ("own", "root", "SELECT * FROM own ORDER BY id"),
    (
        "tables",
        "root",
        (
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_schema IN ('public', 'shop') ORDER BY 1, 2"
        ),
    ),
    ("users", "root", "SELECT name, role, groups, tenant, daily_calls, daily_tokens FROM system.users ORDER BY 1"),
    (
        "grants",
        "root",
        (
            "SELECT grantee, privilege, kind, \"schema\", name FROM system.grants WHERE kind <> 'MODEL'"
            " ORDER BY 1, 2, 3, 4, 5"
        ),
    ),
    (
        "policies",
        "root",
        ('SELECT grantee, "schema", "table", "column", expression FROM system.policies ORDER BY 1, 2, 3, 4'),
    ),
    ("models", "root", "SELECT name, engine, model FROM system.models WHERE name = 'small'"),
    ("prompts", "root", "SELECT name, version, text FROM system.prompts ORDER BY 1, 2"),
    ("written", "root", "SELECT id, ai_gen('Say more.', text) AS more FROM notes ORDER BY id"),
    (
        "classified",
        "root",
        (
            "SELECT id, ai_classify(text, ['drink', 'animal', 'weather'], normalize => 'case') AS label"
            " FROM notes ORDER BY id"
        ),
    ),
    ("scored", "root", "SELECT id, ai_score('How happy?', text, low => 1, high => 5) AS score FROM notes ORDER BY id"),
    ("extracted", "root", "SELECT id, ai_extract(text, ['who', 'what']) AS found FROM notes ORDER BY id"),
    ("similar", "root", "SELECT id, round(ai_similarity(text, 'tea for a cat'), 3) AS near FROM notes ORDER BY id"),
    ("other_model", "root", "SELECT id, ai_gen('Say less.', text, model => small) AS less FROM notes ORDER BY id"),
    (
        "prompted",
        "root",
        (
            "SELECT id, ai_filter(text, prompt => drinks) AS newest,"
            " ai_filter(text, prompt => 'drinks@1') AS first FROM notes ORDER BY id"
        ),
    ),
    ("filtered", "ann", "SELECT * FROM notes ORDER BY id"),
    ("masked", "bob", "SELECT * FROM notes ORDER BY id"),
    ("indexes", "root", 'SELECT name, "table", "column", type, rows, status FROM system.vector_indexes ORDER BY 1'),
    ("near", "root", "SELECT id, name FROM vector_search('names', 'red apple', top_k => 2) ORDER BY score DESC"),
    ("near_graph", "root", "SELECT id FROM vector_search('graph', 'stock market', top_k => 1)"),
    ("near_place", "root", "SELECT id FROM vector_search('places', [0.0, 0.1, 0.2, 1.0], top_k => 1)"),
    ("words", "root", "SELECT id, name FROM text_search('names', 'pears') ORDER BY score DESC"),
    ("both", "root", "SELECT id FROM vector_search('names', 'green pear', top_k => 1, mode => 'hybrid')"),
)
"""Names, who asks, and queries. Each is asked twice: the second time, the engine must get no prompt."""
CONTEXT: Final = (
    "You read notes that people wrote about their week, one note at a time. Tell in a few words what the note is about:"
    " a drink, an animal, the weather, a journey, a house, a friend, or something else. Do not repeat the note, do not"
    " explain what you do, and write nothing that the note does not say. Where a note is empty, write the word nothing."
)
"""What the prompts of a KV chunk begin with: 64 to 127 tokens of the demo model."""
ASKED: Final = "SELECT id, ai_gen('" + CONTEXT + "', text, max_tokens => 1) AS about FROM notes"
