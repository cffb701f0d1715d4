"""Ordinary statements, of which none takes more than its share: they run in the server's own process."""

SETUP = (
    "CREATE TABLE t (id BIGINT, name VARCHAR, price DOUBLE, amount DECIMAL(12,2), made TIMESTAMP, day DATE, ok BOOLEAN)",
    "CREATE TABLE u (id BIGINT, t_id BIGINT, text VARCHAR, tags VARCHAR[], score INT)",
    "CREATE TABLE region (r_regionkey BIGINT, r_name VARCHAR, r_comment VARCHAR)",
    "CREATE TABLE nation (n_nationkey BIGINT, n_name VARCHAR, n_regionkey BIGINT, n_comment VARCHAR)",
    "CREATE TABLE supplier (s_suppkey BIGINT, s_name VARCHAR, s_address VARCHAR, s_nationkey BIGINT, s_phone VARCHAR,"
    " s_acctbal DECIMAL(15,2), s_comment VARCHAR)",
    "CREATE TABLE customer (c_custkey BIGINT, c_name VARCHAR, c_address VARCHAR, c_nationkey BIGINT, c_phone VARCHAR,"
    " c_acctbal DECIMAL(15,2), c_mktsegment VARCHAR, c_comment VARCHAR)",
    "CREATE TABLE part (p_partkey BIGINT, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR, p_type VARCHAR,"
    " p_size INT, p_container VARCHAR, p_retailprice DECIMAL(15,2), p_comment VARCHAR)",
    "CREATE TABLE partsupp (ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2),"
    " ps_comment VARCHAR)",
    "CREATE TABLE orders (o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus VARCHAR, o_totalprice DECIMAL(15,2),"
    " o_orderdate DATE, o_orderpriority VARCHAR, o_clerk VARCHAR, o_shippriority INT, o_comment VARCHAR)",
    "CREATE TABLE lineitem (l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT,"
    " l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2),"
    " l_returnflag VARCHAR, l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE,"
    " l_shipinstruct VARCHAR, l_shipmode VARCHAR, l_comment VARCHAR)",
)
"""The tables that the statements read."""

TPCH = (
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),"
    " avg(l_discount), count(*) FROM lineitem WHERE l_shipdate <= date '1998-12-01' - interval '90 days'"
    " GROUP BY l_returnflag, l_linestatus ORDER BY 1, 2",
    "SELECT s_acctbal, s_name, n_name, p_partkey FROM part, supplier, partsupp, nation, region WHERE p_partkey ="
    " ps_partkey AND s_suppkey = ps_suppkey AND p_size = 15 AND p_type LIKE '%BRASS' AND s_nationkey = n_nationkey AND"
    " n_regionkey = r_regionkey AND r_name = 'EUROPE' AND ps_supplycost = (SELECT min(ps_supplycost) FROM partsupp,"
    " supplier, nation, region WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND s_nationkey = n_nationkey"
    " AND n_regionkey = r_regionkey AND r_name = 'EUROPE') ORDER BY s_acctbal DESC LIMIT 100",
    "SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate FROM customer, orders, lineitem"
    " WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate <"
    " date '1995-03-15' GROUP BY l_orderkey, o_orderdate ORDER BY revenue DESC LIMIT 10",
    "SELECT o_orderpriority, count(*) FROM orders WHERE o_orderdate >= date '1993-07-01' AND EXISTS (SELECT * FROM"
    " lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) GROUP BY 1 ORDER BY 1",
    "SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM customer, orders, lineitem, supplier,"
    " nation, region WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey"
    " = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' GROUP BY n_name",
    "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= date '1994-01-01' AND l_discount"
    " BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "SELECT supp_nation, cust_nation, l_year, sum(volume) FROM (SELECT n1.n_name AS supp_nation, n2.n_name AS"
    " cust_nation, extract(year FROM l_shipdate) AS l_year, l_extendedprice * (1 - l_discount) AS volume FROM supplier,"
    " lineitem, orders, customer, nation n1, nation n2 WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND"
    " c_custkey = o_custkey AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey) AS shipping GROUP BY"
    " supp_nation, cust_nation, l_year",
    "SELECT o_year, sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume) FROM (SELECT extract(year FROM"
    " o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation FROM part, supplier,"
    " lineitem, orders, customer, nation n1, nation n2, region WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND"
    " l_orderkey = o_orderkey AND o_custkey = c_custkey AND c_nationkey = n1.n_nationkey AND n1.n_regionkey ="
    " r_regionkey AND s_nationkey = n2.n_nationkey AND p_type = 'ECONOMY ANODIZED STEEL') q GROUP BY o_year",
    "SELECT nation, o_year, sum(amount) FROM (SELECT n_name AS nation, extract(year FROM o_orderdate) AS o_year,"
    " l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount FROM part, supplier, lineitem, partsupp,"
    " orders, nation WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey ="
    " l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%') q GROUP BY 1, 2",
    "SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue FROM customer, orders, lineitem,"
    " nation WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_returnflag = 'R' AND c_nationkey ="
    " n_nationkey GROUP BY c_custkey, c_name ORDER BY revenue DESC LIMIT 20",
    "SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp, supplier, nation WHERE ps_suppkey ="
    " s_suppkey AND s_nationkey = n_nationkey GROUP BY ps_partkey HAVING sum(ps_supplycost * ps_availqty) > (SELECT"
    " sum(ps_supplycost * ps_availqty) * 0.0001 FROM partsupp, supplier WHERE ps_suppkey = s_suppkey) ORDER BY value",
    "SELECT l_shipmode, sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END)"
    " FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') GROUP BY l_shipmode",
    "SELECT c_count, count(*) FROM (SELECT c_custkey, count(o_orderkey) FROM customer LEFT OUTER JOIN orders ON"
    " c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) AS c (c_custkey, c_count)"
    " GROUP BY c_count ORDER BY 2 DESC",
    "SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) /"
    " sum(l_extendedprice * (1 - l_discount)) FROM lineitem, part WHERE l_partkey = p_partkey",
    "WITH revenue AS (SELECT l_suppkey AS supplier_no, sum(l_extendedprice * (1 - l_discount)) AS total FROM lineitem"
    " GROUP BY l_suppkey) SELECT s_suppkey, s_name, total FROM supplier, revenue WHERE s_suppkey = supplier_no AND total"
    " = (SELECT max(total) FROM revenue)",
    "SELECT p_brand, p_type, count(DISTINCT ps_suppkey) FROM partsupp, part WHERE p_partkey = ps_partkey AND p_type NOT"
    " LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23) AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE"
    " s_comment LIKE '%Customer%Complaints%') GROUP BY p_brand, p_type",
    "SELECT sum(l_extendedprice) / 7.0 FROM lineitem, part WHERE p_partkey = l_partkey AND p_brand = 'Brand#23' AND"
    " l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)",
    "SELECT c_name, o_orderkey, sum(l_quantity) FROM customer, orders, lineitem WHERE o_orderkey IN (SELECT l_orderkey"
    " FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 300) AND c_custkey = o_custkey AND o_orderkey ="
    " l_orderkey GROUP BY c_name, o_orderkey",
    "SELECT sum(l_extendedprice * (1 - l_discount)) FROM lineitem, part WHERE (p_partkey = l_partkey AND p_brand ="
    " 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX') AND l_quantity BETWEEN 1 AND 11) OR (p_partkey = l_partkey"
    " AND p_brand = 'Brand#23' AND l_shipmode IN ('AIR', 'AIR REG'))",
    "SELECT s_name FROM supplier, nation WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp WHERE ps_partkey IN (SELECT"
    " p_partkey FROM part WHERE p_name LIKE 'forest%') AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem"
    " WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey)) AND s_nationkey = n_nationkey AND n_name = 'CANADA'",
    "SELECT s_name, count(*) FROM supplier, lineitem l1, orders WHERE s_suppkey = l1.l_suppkey AND o_orderkey ="
    " l1.l_orderkey AND EXISTS (SELECT * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <>"
    " l1.l_suppkey) AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_receiptdate"
    " > l3.l_commitdate) GROUP BY s_name",
    "SELECT cntrycode, count(*), sum(c_acctbal) FROM (SELECT substring(c_phone from 1 for 2) AS cntrycode, c_acctbal"
    " FROM customer WHERE substring(c_phone from 1 for 2) IN ('13', '31') AND c_acctbal > (SELECT avg(c_acctbal) FROM"
    " customer WHERE c_acctbal > 0.00 AND substring(c_phone from 1 for 2) IN ('13', '31')) AND NOT EXISTS (SELECT *"
    " FROM orders WHERE o_custkey = c_custkey)) AS custsale GROUP BY cntrycode",
)

TEXTS = (
    "repeat('-', 80)",
    "lpad(id::varchar, 10, '0')",
    "rpad(name, 40, ' ')",
    "upper(name)",
    "lower(name) || '!'",
    "name || ' ' || name",
    "concat(name, ', ', name)",
    "concat_ws('-', name, id::varchar)",
    "length(name)",
    "substr(name, 1, 10)",
    "left(name, 3)",
    "right(name, 3)",
    "trim(name)",
    "ltrim(name, 'x')",
    "reverse(name)",
    "replace(name, 'a', 'bc')",
    "translate(name, 'abc', 'xyz')",
    "split_part(name, ' ', 1)",
    "initcap(name)",
    "strpos(name, 'a')",
    "position('a' in name)",
    "starts_with(name, 'a')",
    "ends_with(name, 'a')",
    "regexp_replace(name, '[a-z]+', '')",
    "regexp_replace(name, '(\\w+) (\\w+)', '\\2 \\1', 'g')",
    "regexp_like(name, '^[A-Z][a-z]{2,10}$')",
    "regexp_match(name, '(\\d+)-(\\d+)')[1]",
    "regexp_count(name, 'a')",
    "name ~ '^a.*b$'",
    "name LIKE 'a%'",
    "name LIKE '%a%b%'",
    "name ILIKE '%foo%'",
    "name SIMILAR TO '(a|b)%'",
    "levenshtein(name, 'hello world')",
    "levenshtein(name, name)",
    "md5(name)",
    "sha256(name)",
    "encode(name::bytea, 'hex')",
    "ascii(name)",
    "chr(65)",
    "to_hex(id)",
    "octet_length(name)",
    "overlay(name placing 'x' from 2)",
    "coalesce(name, 'none')",
    "nullif(name, '')",
    "nvl(name, 'x')",
    "greatest(id, 3)",
    "least(price, 4.5)",
    "CASE WHEN price > 5 THEN 'dear' WHEN price > 1 THEN 'fair' ELSE 'cheap' END",
    "CASE id WHEN 1 THEN name ELSE 'b' END",
    "cast(price AS varchar)",
    "cast(id AS varchar) || ':' || name",
    "try_cast(name AS int)",
    "amount::double * 2",
    "date_trunc('month', made)",
    "extract(year FROM made)",
    "date_part('dow', made)",
    "to_char(made, '%Y-%m-%d')",
    "made + interval '1 day'",
    "day - interval '3 months'",
    "now() - made",
    "current_date",
    "to_timestamp(id)",
    "date_bin(interval '15 minutes', made)",
    "make_date(2024, 1, 2)",
    "abs(price)",
    "round(price, 2)",
    "power(price, 2)",
    "sqrt(price) + ln(price + 1)",
    "id % 10",
    "id / 3",
    "id & 255",
    "factorial(5)",
    "random()",
    "uuid()",
    "pi()",
    "sin(price) * cos(price)",
    "trunc(price)",
    "range(0, 100)",
    "range(1, 10, 2)",
    "generate_series(1, 12)",
    "[1, 2, 3]",
    "make_array(id, id + 1)",
    "array_length([1, 2])",
    "array_append([1], 2)",
    "array_sort([3, 1])",
    "array_has([1, 2], 1)",
    "array_to_string(['a', 'b'], ',')",
    "string_to_array(name, ' ')",
    "cardinality([1])",
    "struct(id, name)",
    "named_struct('a', id)",
    "map(['a'], [id])",
    "arrow_cast(id, 'Int32')",
    "arrow_typeof(id)",
    "array_distinct([1, 1])",
    "array_concat([1], [2])",
    "array_repeat('x', 5)",
    "ok AND NOT (id > 3 OR name IS NULL)",
    "id BETWEEN 1 AND 5",
    "id IN (1, 2, 3)",
    "name IN ('a', 'b')",
    "1 = 1",
    "NULL",
    "X'0102'",
    "encode('abc', 'base64')",
)

QUERIES = (
    *TPCH,
    *(f"SELECT {text} FROM t" for text in TEXTS),
    "SELECT 1",
    "SELECT * FROM t",
    "SELECT * FROM t WHERE 1 = 1",
    "SELECT * FROM t ORDER BY made DESC LIMIT 50 OFFSET 10",
    "SELECT count(*) FROM t",
    "SELECT DISTINCT name FROM t",
    "SELECT DISTINCT ON (name) name, id FROM t ORDER BY name, id",
    "SELECT name, array_agg(id) FROM t GROUP BY name",
    "SELECT name, array_agg(price ORDER BY made) FILTER (WHERE price > 1) FROM t GROUP BY name",
    "SELECT string_agg(name, ', ') FROM t",
    "SELECT array_to_string(array_agg(name), ', ') FROM t GROUP BY id",
    "SELECT median(price), approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY price) FROM t",
    "SELECT stddev(price), var_pop(price), corr(price, id) FROM t",
    "SELECT sum(price) OVER (PARTITION BY name ORDER BY made) FROM t",
    "SELECT avg(price) OVER (ORDER BY made ROWS BETWEEN 6 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY name ORDER BY made DESC) AS rn FROM t) q WHERE rn = 1",
    "SELECT lag(price, 1) OVER (ORDER BY made), lead(name) OVER (ORDER BY made), rank() OVER (ORDER BY price) FROM t",
    "SELECT ntile(4) OVER (ORDER BY price), first_value(name) OVER (PARTITION BY ok ORDER BY id) FROM t",
    "SELECT t.name, u.text FROM t JOIN u ON u.t_id = t.id",
    "SELECT * FROM t LEFT JOIN u ON u.t_id = t.id AND u.score > 3 WHERE u.id IS NULL",
    "SELECT * FROM t FULL JOIN u USING (id)",
    "SELECT count(*) FROM t, u",
    "SELECT * FROM t WHERE id IN (SELECT t_id FROM u WHERE text LIKE '%x%')",
    "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.t_id = t.id)",
    "SELECT name, (SELECT count(*) FROM u WHERE u.t_id = t.id) FROM t",
    "SELECT * FROM t WHERE price > (SELECT avg(price) FROM t)",
    "SELECT unnest(tags) AS tag, count(*) FROM u GROUP BY tag",
    "SELECT tags[1], array_length(tags), array_to_string(tags, ' ') FROM u",
    "SELECT unnest([1, 2, 3])",
    "SELECT id FROM t UNION SELECT id FROM u",
    "SELECT name FROM t UNION ALL SELECT text FROM u ORDER BY 1",
    "SELECT id FROM t INTERSECT SELECT id FROM u",
    "SELECT id FROM t EXCEPT SELECT id FROM u",
    "WITH a AS (SELECT id, name FROM t), b AS (SELECT * FROM a WHERE id > 3) SELECT * FROM a JOIN b USING (id)",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 100) SELECT n FROM r",
    "WITH RECURSIVE p(id, path) AS (SELECT id, name FROM t WHERE id = 1 UNION ALL SELECT t.id, p.path || '/' || t.name"
    " FROM t JOIN p ON t.id = p.id + 1) SELECT * FROM p",
    "SELECT name, ok, sum(price) FROM t GROUP BY ROLLUP (name, ok)",
    "SELECT name, ok, sum(price) FROM t GROUP BY GROUPING SETS ((name), (ok), ())",
    "SELECT name, count(*) FROM t GROUP BY name HAVING count(*) > 2 ORDER BY 2 DESC LIMIT 10",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v(x, y) WHERE y LIKE 'a%'",
    "SELECT * FROM generate_series(1, 10)",
    "SELECT value * 2 FROM range(0, 1000) WHERE value % 3 = 0",
    "EXPLAIN SELECT upper(name) FROM t",
    'SELECT "t"."name" AS "name", SUM("t"."price") AS "sum:price:ok" FROM "public"."t" "t" WHERE ((DATE_TRUNC(\'MONTH\','
    ' "t"."made") >= CAST(\'2020-01-01\' AS TIMESTAMP))) GROUP BY 1 HAVING (COUNT(1) > 0)',
    "SELECT CAST(DATE_TRUNC('day', made) AS DATE) AS d, COUNT(DISTINCT name) AS n FROM (SELECT * FROM t WHERE 1=1) AS"
    " virtual_table GROUP BY 1 ORDER BY n DESC LIMIT 1000",
    "SELECT extract(year FROM made) * 100 + extract(month FROM made) AS ym, sum(amount) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT name, price, price / sum(price) OVER () AS share FROM t",
    "SELECT width, count(*) FROM (SELECT floor(price / 10) * 10 AS width FROM t) q GROUP BY width",
    "SELECT lower(regexp_replace(trim(name), '\\s+', ' ', 'g')) AS clean, count(*) FROM t GROUP BY 1",
    "SELECT sum(CASE WHEN ok THEN 1 ELSE 0 END) * 1.0 / count(*) FROM t",
    "SELECT unnest(generate_series(date '2024-01-01', date '2024-12-31', interval '1 day'))",
)
