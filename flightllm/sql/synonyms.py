"""Replacements for functions of other servers; error messages prefer them to functions with a similar name."""

from collections.abc import Mapping

SYNONYMS: Mapping[str, str] = {
    "approx_count_distinct": "approx_distinct(x)",
    "array_size": "cardinality(list)",
    "bool_or_agg": "bool_or(x)",
    "charindex": "strpos(text, part)",
    "collect_list": "array_agg(x)",
    "collect_set": "array_agg(DISTINCT x)",
    **dict.fromkeys(
        ("array_cosine_similarity", "cosine_similarity", "list_cosine_similarity"), "1 - cosine_distance(a, b)"
    ),
    **dict.fromkeys(("array_cosine_distance", "list_cosine_distance"), "cosine_distance(a, b)"),
    "dateadd": "time + INTERVAL '1 day'",
    "div0": "a / nullif(b, 0)",
    "editdist": "levenshtein(text, part)",
    "endswith": "ends_with(text, part)",
    "generate_uuid": "uuid()",
    "getdate": "now()",
    "isnull": "x IS NULL",
    "len": "length(text), or cardinality(list)",
    "object_construct": "named_struct('name', value)",
    "parse_date": "to_date(text, '%Y-%m-%d')",
    "parse_timestamp": "to_timestamp(text, '%Y-%m-%d %H:%M:%S')",
    "prompt": "AI_FILTER(PROMPT('Is {0} kind?', review)), because PROMPT works only inside an AI call",
    "regexp_contains": "regexp_like(text, pattern)",
    "regexp_substr": "regexp_match(text, pattern)[1]",
    "safe_divide": "a / nullif(b, 0)",
    "size": "cardinality(list)",
    "startswith": "starts_with(text, part)",
    "sysdate": "now()",
    "title_case": "initcap(text)",
    "titlecase": "initcap(text)",
    "to_number": "x::DECIMAL(18, 2)",
    "to_varchar": "x::VARCHAR, or to_char(time, '%Y-%m-%d')",
    "try_to_date": "try_cast(text AS DATE)",
    "try_to_number": "try_cast(text AS DECIMAL(18, 2))",
    "uniq": "count(DISTINCT x)",
    "unix_timestamp": "date_part('epoch', time)",
    "zeroifnull": "coalesce(x, 0)",
}
"""The expression to write for each function, by its name in lower case."""
