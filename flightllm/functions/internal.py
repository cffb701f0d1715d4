"""The functions that only rewritten texts call, for what DataFusion's own functions cannot do."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa

from flightllm.functions.ages import AGE, AGE_ARGUMENTS, AGE_OUTPUT, ages
from flightllm.functions.array_keys import KEY_FUNCTIONS, array_key, key_type
from flightllm.functions.calendar_months import MONTHS_ARGUMENTS, MONTHS_BETWEEN, months_between
from flightllm.functions.half_even import HALF_EVEN, HALF_EVEN_ARGUMENTS, HALF_EVEN_OUTPUT, half_even
from flightllm.functions.interval_parts import INTERVAL_EPOCH, WITH_DAYS, interval_epoch, with_days
from flightllm.functions.interval_sum import INTERVAL_SUM, INTERVAL_SUM_ARGUMENTS, INTERVAL_SUM_OUTPUT, interval_sum
from flightllm.functions.interval_times import (
    INTERVAL_TIMES,
    INTERVAL_TIMES_ARGUMENTS,
    INTERVAL_TIMES_OUTPUT,
    interval_times,
)
from flightllm.functions.java_json import JAVA_JSON, JAVA_KEYS, json_at, json_keys
from flightllm.functions.java_texts import (
    CRC_32,
    GROUPED,
    JAVA_FORMAT,
    OTHER_BASE,
    SHA_1,
    SPLIT_AT_MOST,
    URL_DECODED,
    URL_ENCODED,
    URL_PART,
    crc_32,
    grouped,
    java_formats,
    other_bases,
    sha_1,
    split_at_most,
    url_decoded,
    url_encoded,
    url_parts,
)
from flightllm.functions.json_scalars import JSON_SCALAR, json_scalars
from flightllm.functions.json_texts import JSON_LIST, JSON_OBJECT, JSON_TEXT, json_list, json_object, json_text
from flightllm.functions.list_moments import (
    DOUBLES,
    KURTOSIS,
    KURTOSIS_POP,
    SKEWNESS,
    kurtoses,
    population_kurtoses,
    skewnesses,
)
from flightllm.functions.list_sums import CHECKED_SUM, EXACT_SUM, checked_sums, exact_sums
from flightllm.functions.longest_run import (
    LONGEST_RUN,
    LONGEST_RUN_ARGUMENTS,
    LONGEST_RUN_OUTPUT,
    longest_run,
)
from flightllm.functions.run_lengths import COUNTS, RUN_LENGTHS, run_lengths
from flightllm.functions.search import VECTOR_BYTES, vector_bytes
from flightllm.functions.text_bytes import TEXT_BYTES, text_bytes
from flightllm.functions.text_formats import FORMAT_ARGUMENTS, IN_BRACES, IN_PERCENTS, in_braces, in_percents
from flightllm.functions.text_intervals import TEXT_INTERVAL, text_intervals
from flightllm.functions.text_parts import (
    ALL_MATCHES,
    LISTS,
    MATCH_ROWS,
    NTH_REPLACED,
    SPLIT,
    SPLIT_BY_PATTERN,
    all_matches,
    match_rows,
    nth_replaced,
    split,
    split_by_pattern,
)
from flightllm.functions.text_places import (
    CAPITALS,
    PART_ARGUMENTS,
    PART_OF_TEXT,
    PLACE_ARGUMENTS,
    PLACE_IN_TEXT,
    SOUND,
    WORD_OF_TEXT,
    capitals,
    sounds,
    text_parts,
    text_places,
    text_words,
)
from flightllm.functions.text_similarity import (
    DAMERAU,
    HAMMING,
    JARO,
    JARO_WINKLER,
    damerau_levenshtein,
    hamming,
    jaro,
    jaro_winkler,
)
from flightllm.functions.time_texts import (
    TIME_TEXT,
    TIMESTAMP_TEXT,
    ZONED_TEXT,
    time_text,
    timestamp_text,
    zoned_text,
)
from flightllm.functions.type_names import TYPE_NAME, type_names
from flightllm.functions.value_hashes import ENTROPY, HASH, entropies, hashes
from flightllm.functions.value_texts import (
    ARRAY_TEXT,
    DOUBLE_TEXT,
    INTERVAL_TEXT,
    REAL_TEXT,
    VENDOR_DOUBLE,
    array_text,
    double_text,
    interval_text,
    real_text,
    vendor_double_text,
)
from flightllm.functions.variant_objects import (
    COMPACT,
    DELETED,
    GOT,
    INSERTED,
    KIND,
    OBJECT,
    OBJECT_NAMES,
    PICKED,
    RAW,
    compact,
    deleted,
    inserted,
    kinds,
    object_names,
    objects,
    picked,
    raw_values,
    values_got,
)
from flightllm.functions.variants import (
    ELEMENTS,
    FLATTENED,
    MEMBERS,
    OF_LIST,
    PARSED_JSON,
    SCALARS,
    TEXTS,
    VARIANT_JSON,
    VARIANT_TEXT,
    elements,
    flattened,
    members,
    of_lists,
    parsed_jsons,
    scalars,
    variant_jsons,
    variant_texts,
)
from flightllm.functions.zoned_time import ZONED_TIME, ZONED_TIME_ARGUMENTS, ZONED_TIME_OUTPUT, zoned_time

OWN_PREFIX: Final = "__"
"""The first letters of the functions that only the server's own texts call; lists of functions leave these out."""

INTERNAL: Final[tuple[tuple[Callable[..., pa.Array], list[pa.DataType], pa.DataType, str, str], ...]] = (
    (vector_bytes, [pa.list_(pa.float32())], pa.binary(), "immutable", VECTOR_BYTES),
    (zoned_time, list(ZONED_TIME_ARGUMENTS), ZONED_TIME_OUTPUT, "immutable", ZONED_TIME),
    (interval_times, list(INTERVAL_TIMES_ARGUMENTS), INTERVAL_TIMES_OUTPUT, "immutable", INTERVAL_TIMES),
    (interval_sum, list(INTERVAL_SUM_ARGUMENTS), INTERVAL_SUM_OUTPUT, "immutable", INTERVAL_SUM),
    (half_even, list(HALF_EVEN_ARGUMENTS), HALF_EVEN_OUTPUT, "immutable", HALF_EVEN),
    (double_text, [pa.float64()], pa.string(), "immutable", DOUBLE_TEXT),
    (vendor_double_text, [pa.float64(), pa.string()], pa.string(), "immutable", VENDOR_DOUBLE),
    (real_text, [pa.float32()], pa.string(), "immutable", REAL_TEXT),
    (interval_text, [pa.month_day_nano_interval(), pa.bool_()], pa.string(), "immutable", INTERVAL_TEXT),
    (with_days, [pa.month_day_nano_interval()], pa.month_day_nano_interval(), "immutable", WITH_DAYS),
    (interval_epoch, [pa.month_day_nano_interval()], pa.float64(), "immutable", INTERVAL_EPOCH),
    (time_text, [pa.string()], pa.string(), "immutable", TIME_TEXT),
    (timestamp_text, [pa.string()], pa.string(), "immutable", TIMESTAMP_TEXT),
    (zoned_text, [pa.string()], pa.string(), "immutable", ZONED_TEXT),
    (type_names, [pa.string()], pa.string(), "immutable", TYPE_NAME),
    (text_bytes, [pa.string()], pa.binary(), "immutable", TEXT_BYTES),
    (text_intervals, [pa.string()], pa.month_day_nano_interval(), "immutable", TEXT_INTERVAL),
    (array_text, [pa.list_(pa.string())], pa.string(), "immutable", ARRAY_TEXT),
    *((array_key, [pa.list_(one)], key_type(one), "immutable", name) for one, name in KEY_FUNCTIONS.items()),
    (ages, list(AGE_ARGUMENTS), AGE_OUTPUT, "immutable", AGE),
    (all_matches, [pa.string(), pa.string(), pa.int64()], pa.list_(pa.string()), "immutable", ALL_MATCHES),
    (match_rows, [pa.string(), pa.string(), pa.bool_()], LISTS, "immutable", MATCH_ROWS),
    (split, [pa.string(), pa.string()], pa.list_(pa.string()), "immutable", SPLIT),
    (split_by_pattern, [pa.string(), pa.string()], pa.list_(pa.string()), "immutable", SPLIT_BY_PATTERN),
    (text_parts, list(PART_ARGUMENTS), pa.string(), "immutable", PART_OF_TEXT),
    (text_places, list(PLACE_ARGUMENTS), pa.int64(), "immutable", PLACE_IN_TEXT),
    (text_words, [pa.string(), pa.string(), pa.int64()], pa.string(), "immutable", WORD_OF_TEXT),
    (capitals, [pa.string(), pa.string()], pa.string(), "immutable", CAPITALS),
    (sounds, [pa.string()], pa.string(), "immutable", SOUND),
    (months_between, list(MONTHS_ARGUMENTS), pa.float64(), "immutable", MONTHS_BETWEEN),
    (jaro, [pa.string(), pa.string()], pa.float64(), "immutable", JARO),
    (jaro_winkler, [pa.string(), pa.string()], pa.float64(), "immutable", JARO_WINKLER),
    (damerau_levenshtein, [pa.string(), pa.string()], pa.int64(), "immutable", DAMERAU),
    (hamming, [pa.string(), pa.string()], pa.int64(), "immutable", HAMMING),
    (in_braces, list(FORMAT_ARGUMENTS), pa.string(), "immutable", IN_BRACES),
    (in_percents, list(FORMAT_ARGUMENTS), pa.string(), "immutable", IN_PERCENTS),
    (json_text, [pa.string(), pa.string()], pa.string(), "immutable", JSON_TEXT),
    (json_object, [pa.list_(pa.string()), pa.list_(pa.string())], pa.string(), "immutable", JSON_OBJECT),
    (json_list, [pa.list_(pa.string())], pa.string(), "immutable", JSON_LIST),
    (hashes, [pa.list_(pa.string())], pa.uint64(), "immutable", HASH),
    (entropies, [pa.list_(pa.string())], pa.float64(), "immutable", ENTROPY),
    (skewnesses, [DOUBLES], pa.float64(), "immutable", SKEWNESS),
    (kurtoses, [DOUBLES], pa.float64(), "immutable", KURTOSIS),
    (population_kurtoses, [DOUBLES], pa.float64(), "immutable", KURTOSIS_POP),
    (exact_sums, [pa.list_(pa.string())], pa.string(), "immutable", EXACT_SUM),
    (checked_sums, [pa.list_(pa.string()), pa.string()], pa.float64(), "immutable", CHECKED_SUM),
    (run_lengths, [pa.list_(pa.string())], COUNTS, "immutable", RUN_LENGTHS),
    (variant_texts, [pa.string(), pa.string()], pa.string(), "immutable", VARIANT_TEXT),
    (variant_jsons, [pa.string(), pa.string()], pa.string(), "immutable", VARIANT_JSON),
    (elements, [pa.string()], pa.list_(pa.string()), "immutable", ELEMENTS),
    (members, [pa.string()], pa.list_(pa.string()), "immutable", MEMBERS),
    (parsed_jsons, [pa.string(), pa.bool_()], pa.string(), "immutable", PARSED_JSON),
    (scalars, [pa.string()], pa.list_(pa.string()), "immutable", SCALARS),
    (json_scalars, [pa.string(), pa.string(), pa.string()], pa.string(), "immutable", JSON_SCALAR),
    (of_lists, [TEXTS], pa.string(), "immutable", OF_LIST),
    (flattened, [pa.string(), pa.string(), pa.bool_(), pa.bool_(), pa.string()], TEXTS, "immutable", FLATTENED),
    (raw_values, [pa.string(), pa.string()], pa.string(), "immutable", RAW),
    (kinds, [pa.string(), pa.string()], pa.string(), "immutable", KIND),
    (values_got, [pa.string(), pa.string()], pa.string(), "immutable", GOT),
    (objects, [TEXTS, TEXTS, pa.bool_()], pa.string(), "immutable", OBJECT),
    (object_names, [pa.string()], TEXTS, "immutable", OBJECT_NAMES),
    (inserted, [pa.string(), pa.string(), pa.string(), pa.bool_()], pa.string(), "immutable", INSERTED),
    (picked, [pa.string(), TEXTS], pa.string(), "immutable", PICKED),
    (deleted, [pa.string(), TEXTS], pa.string(), "immutable", DELETED),
    (compact, [pa.string()], pa.string(), "immutable", COMPACT),
    (nth_replaced, [pa.string(), pa.string(), pa.string(), *2 * [pa.int64()]], pa.string(), "immutable", NTH_REPLACED),
    (json_at, [pa.string(), pa.string()], pa.string(), "immutable", JAVA_JSON),
    (json_keys, [pa.string()], TEXTS, "immutable", JAVA_KEYS),
    (java_formats, list(FORMAT_ARGUMENTS), pa.string(), "immutable", JAVA_FORMAT),
    (grouped, [pa.string(), pa.int64(), pa.string()], pa.string(), "immutable", GROUPED),
    (other_bases, [pa.string(), pa.int64(), pa.int64()], pa.string(), "immutable", OTHER_BASE),
    (split_at_most, [pa.string(), pa.string(), pa.int64()], TEXTS, "immutable", SPLIT_AT_MOST),
    (url_encoded, [pa.string()], pa.string(), "immutable", URL_ENCODED),
    (url_decoded, [pa.string()], pa.string(), "immutable", URL_DECODED),
    (url_parts, [pa.string(), pa.string(), pa.string()], pa.string(), "immutable", URL_PART),
    (sha_1, [pa.string()], pa.string(), "immutable", SHA_1),
    (crc_32, [pa.string()], pa.int64(), "immutable", CRC_32),
    (longest_run, list(LONGEST_RUN_ARGUMENTS), LONGEST_RUN_OUTPUT, "immutable", LONGEST_RUN),
)
"""The arguments of `datafusion.udf` for each function."""
CALLED: Final = (
    *(VARIANT_TEXT, VARIANT_JSON, ELEMENTS, MEMBERS, FLATTENED, OF_LIST, SCALARS, JSON_SCALAR, PARSED_JSON),
    *(ZONED_TIME, INTERVAL_TIMES, INTERVAL_SUM, HALF_EVEN, DOUBLE_TEXT, REAL_TEXT, INTERVAL_TEXT, ARRAY_TEXT),
    *(RAW, KIND, GOT, OBJECT, OBJECT_NAMES, INSERTED, PICKED, DELETED, COMPACT, NTH_REPLACED),
    VENDOR_DOUBLE,
    TEXT_INTERVAL,
    *(WITH_DAYS, INTERVAL_EPOCH, TIME_TEXT, TIMESTAMP_TEXT, ZONED_TEXT, TEXT_BYTES, LONGEST_RUN, TYPE_NAME),
    *(
        TEXT_INTERVAL,
        AGE,
        MONTHS_BETWEEN,
        PART_OF_TEXT,
        PLACE_IN_TEXT,
        WORD_OF_TEXT,
        CAPITALS,
        SOUND,
        ALL_MATCHES,
        MATCH_ROWS,
        SPLIT,
        SPLIT_BY_PATTERN,
        JARO,
        JARO_WINKLER,
        DAMERAU,
        HAMMING,
        IN_BRACES,
        IN_PERCENTS,
    ),
    *(
        JSON_TEXT,
        JSON_OBJECT,
        JSON_LIST,
        HASH,
        ENTROPY,
        SKEWNESS,
        KURTOSIS,
        KURTOSIS_POP,
        EXACT_SUM,
        CHECKED_SUM,
        RUN_LENGTHS,
    ),
    *(JAVA_JSON, JAVA_KEYS, JAVA_FORMAT, GROUPED, OTHER_BASE, SPLIT_AT_MOST),
    *(URL_ENCODED, URL_DECODED, URL_PART, SHA_1, CRC_32),
    *KEY_FUNCTIONS.values(),
)
"""The names that the passes over a text write in it."""
