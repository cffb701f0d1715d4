SELECT id, upper(w) AS a, lower(w) AS b, initcap(w) AS c FROM words
SELECT id, length(w) AS a, char_length(w) AS b, octet_length(w) AS c, bit_length(w) AS d FROM words
SELECT id, reverse(w) AS a, repeat(w, 2) AS b, repeat(w, 0) AS c FROM words
SELECT id, substring(w FROM 2) AS a, substring(w FROM 2 FOR 3) AS b, substring(w FROM 0 FOR 2) AS c FROM words
SELECT id, substr(w, 3) AS a, substr(w, -1, 3) AS b, substr(w, 2, 0) AS c FROM words
SELECT id, left(w, 2) AS a, right(w, 2) AS b, left(w, -2) AS c, right(w, -2) AS d FROM words
SELECT id, trim(w) AS a, ltrim(w) AS b, rtrim(w) AS c, btrim(w, 'ae') AS d FROM words
SELECT id, trim(LEADING 'a' FROM w) AS a, trim(TRAILING 'e' FROM w) AS b, trim(BOTH 'a' FROM w) AS c FROM words
SELECT id, lpad(w, 8, '*') AS a, rpad(w, 8, 'xy') AS b, lpad(w, 2) AS c, rpad(w, 3) AS d FROM words
SELECT id, replace(w, 'p', 'P') AS a, replace(w, 'pp', '') AS b, replace(w, '', 'x') AS c FROM words
SELECT id, translate(w, 'apl', 'AP') AS a FROM words
SELECT id, strpos(w, 'p') AS a, position('an' IN w) AS b, strpos(w, '') AS c FROM words
SELECT id, split_part(w, ' ', 1) AS a, split_part(w, ' ', 2) AS b, split_part(w, 'a', -1) AS c FROM words
SELECT id, concat(w, '-', n) AS a, w || '-' || n AS b, concat_ws(',', w, n, NULL) AS c FROM words
SELECT id, overlay(w PLACING 'XX' FROM 2 FOR 1) AS a FROM words
SELECT id, ascii(w) AS a, md5(w) AS b FROM words
SELECT chr(65) AS a, chr(228) AS b, ascii('ä') AS c, ascii('') AS d
SELECT id, starts_with(w, 'a') AS a FROM words
SELECT id, regexp_replace(w, '[aeiou]', '#') AS a, regexp_replace(w, '[aeiou]', '#', 'g') AS b FROM words
SELECT id, regexp_replace(w, '(.)p', '\1P', 'g') AS a, regexp_replace(w, 'A', 'x', 'gi') AS b FROM words
SELECT id, regexp_match(w, 'p+') AS a, regexp_match(w, '(a)(.)') AS b FROM words
SELECT id, regexp_count(w, 'a') AS r FROM words
SELECT id, regexp_like(w, 'p+') AS r FROM words
SELECT id, regexp_instr(w, 'p') AS r FROM words
SELECT id, regexp_substr(w, '[a-m]+') AS r FROM words
SELECT regexp_split_to_array('a,b,,c', ',') AS r
SELECT string_to_array('a,b,,c', ',') AS r
SELECT string_to_array('abc', NULL) AS r
SELECT string_to_array('a,b,,c', ',', '') AS a, array_to_string(ARRAY['a', NULL, 'c'], ',') AS b, array_to_string(ARRAY['a', NULL], ',', '?') AS c
SELECT string_to_array('', ',') AS a, string_to_array(NULL, ',') AS b
SELECT quote_literal('it''s') AS r
SELECT quote_ident('A b') AS r
SELECT format('%s is %s', 'x', 1) AS r
SELECT format('%I %L', 'A b', 'c') AS r
SELECT format('%5s|%-5s|', 'a', 'b') AS r
SELECT to_hex(255) AS r
SELECT encode('\x6162'::bytea, 'hex') AS r
SELECT encode('ab'::bytea, 'base64') AS r
SELECT decode('6162', 'hex') AS r
SELECT sha256('a'::bytea) AS a, md5('a') AS b
SELECT 'a' || 1 AS a, 1 || 'a' AS b, 'a' || 1.5 AS c, 'a' || true AS d, 'a' || date '2024-01-01' AS e
SELECT 'it''s' AS r
SELECT E'a\tb\n' AS r
SELECT $$dollar$$ AS r
SELECT U&'\00e4' AS r
SELECT length('日本') AS r
SELECT octet_length('日本') AS r
SELECT upper('é') AS r
SELECT lower('ÀÉ') AS r
SELECT 'a' < 'B' AS a, 'a' < 'b' AS b, 'Z' < 'a' AS c, 'é' > 'z' AS d, '' < 'a' AS e
SELECT 'a ' = 'a' AS r
SELECT 'a'::char(3) = 'a' AS r
SELECT length('a'::char(3)) AS r
SELECT 'abc'::varchar(2) AS r
SELECT substring('foobar' FROM 'o+') AS r
SELECT substring('foobar' FROM 'o(.)b') AS r
SELECT substring('foobar', 'x') AS r
SELECT substring('abc' FROM -1 FOR 3) AS a, substring('abc' FROM 2 FOR 100) AS b, substring('abc', 4) AS c
SELECT upper(NULL) AS a, length(NULL) AS b, concat(NULL, NULL) AS c
SELECT concat(NULL, 'a') AS r
SELECT concat_ws(NULL, 'a', 'b') AS r
SELECT concat_ws('-', NULL) AS r
SELECT concat(1, true, 2.5) AS r
SELECT repeat('ab', 3) AS a, repeat('a', -1) AS b, reverse('añb') AS c, initcap('hello wORLD-foo bar_baz') AS d
SELECT left('abc', 0) AS a, left('abc', 5) AS b, right('abc', -5) AS c, lpad('abc', 0) AS d, lpad('', 2, '') AS e
SELECT strpos('abc', 'c') AS a, strpos('abc', '') AS b, strpos('', 'a') AS c, position('' IN 'abc') AS d
SELECT split_part('a,b,c', ',', 2) AS a, split_part('a,b,c', ',', 9) AS b, split_part('a,b,c', ',', -1) AS c, split_part('', ',', 1) AS d
SELECT replace('aaa', 'aa', 'b') AS a, translate('abc', 'ab', '') AS b, overlay('abcdef' PLACING 'XY' FROM 3) AS c
SELECT to_char(1234.5, '9,999.99') AS r
SELECT to_char(5, '000') AS r
SELECT to_char(-0.5, '0.0') AS r
SELECT to_char(12, 'FM999') AS r
SELECT to_number('1,234.5', '9,999.9') AS a
SELECT 'abc' LIKE 'a_c' AS a, 'abc' LIKE 'A%' AS b, 'abc' ILIKE 'A%' AS c, 'a%c' LIKE 'a\%c' AS d, 'abc' NOT LIKE '%z' AS e
SELECT 'abc' SIMILAR TO 'a(b|x)c' AS a, 'abc' SIMILAR TO '%(b|d)%' AS b, 'abc' SIMILAR TO '(b|c)%' AS c
SELECT 'abc' ~ 'b' AS a, 'abc' ~ '^b' AS b, 'ABC' ~* 'b' AS c, 'abc' !~ 'x' AS d, NULL ~ 'a' AS e
SELECT strpos(w, n::text) AS a FROM words WHERE n IS NOT NULL
SELECT max(length(w)) AS a, min(w) AS b, count(DISTINCT lower(w)) AS c FROM words
SELECT lower(w) AS k, count(*) AS n FROM words GROUP BY lower(w)
SELECT id FROM words WHERE lower(w) = 'äpfel'
SELECT id FROM words WHERE substr(w, 1, 1) = 'a' AND length(w) > 3
SELECT id FROM words ORDER BY reverse(w), id
SELECT unistr('\00e4') AS r
SELECT normalize('e' || chr(769)) = 'é' AS r
SELECT ascii(substr('abc', 2, 1)) AS a, chr(ascii('a') + 1) AS b
SELECT 'abc'::varchar(2) AS r, CAST('abc' AS varchar) AS s, 'abc'::varchar(2)::varchar(1) AS t
SELECT CAST(w AS varchar(3)) AS r, count(*) AS n FROM words GROUP BY CAST(w AS varchar(3))
SELECT w::character varying(3) AS r FROM words ORDER BY w::character varying(3)
SELECT w::varchar(2) || 'x' AS r FROM words WHERE w::varchar(2) = 'ap'
SELECT x::varchar(1) AS r FROM a
SELECT CAST('\x6162' AS bytea) AS x, '\x'::bytea AS z, 'a\\b\001'::bytea AS w, 'ab'::bytea AS v
SELECT E'\\x6162'::bytea AS r
SELECT k, encode(a, 'base64') AS r FROM v_bytea
SELECT encode(repeat('ab', 57)::bytea, 'base64') AS a, encode(repeat('ab', 100)::bytea, 'base64') AS b
SELECT decode(encode(repeat('ab', 100)::bytea, 'base64'), 'base64') AS r
SELECT encode('\x6162', 'hex') AS a, encode('\x6162', 'base64') AS b, encode('ab', 'hex') AS c
SELECT CAST('a' AS char(3)) AS r, CAST('abcd' AS char(3)) AS b, CAST('a' AS char(3)) || 'x' AS c
SELECT id, w::char(3) AS r FROM words
SELECT CAST(x AS bytea) AS r FROM (VALUES ('\x6162'), ('a\000b'), (''), (NULL)) v(x)
SELECT CAST(x AS bytea) AS r FROM (VALUES ('\x6'), (NULL)) v(x)
SELECT w::bytea AS r FROM words WHERE w NOT LIKE '%\%'
SELECT encode('ab'::bytea, 'base64') AS r, encode(repeat('x', 100)::bytea, 'base64') AS b, encode('ab'::bytea, 'hex') AS c
SELECT decode('YWI=', 'base64') AS r
SELECT E'a\nb' ~ 'a.b' AS a, E'a\nb' ~* 'A.B' AS b, E'a\nb' !~ 'a.b' AS c, E'a\nb' ~ '^b' AS d, E'a\nb' ~ 'a$' AS e, E'a\nb' ~ 'b$' AS f
SELECT regexp_replace(E'a\nb', 'a.b', 'x') AS a, regexp_replace(E'a\nb', '.', 'x', 'g') AS b, regexp_replace(E'a\nb', '^.*$', 'x') AS c
SELECT regexp_match(E'a\nb', 'a(.)b') AS a, regexp_like(E'a\nb', 'a.b') AS b, regexp_count(E'a\nb', '.') AS c
SELECT E'a\nb' ~ 'a\.b' AS a, E'a\nb' ~ 'a[.]b' AS b, E'a\nb' ~ 'a[^.]b' AS c, 'a.b' ~ 'a\.b' AS d, E'a\nb' ~ '[]x].|a.b' AS e
SELECT id FROM words WHERE w ~ '^a.*e$' OR w !~* 'A.' ORDER BY id
SELECT id, regexp_replace(w, '(.)p', '\1-', 'g') AS r FROM words ORDER BY id
SELECT id, regexp_replace(w || chr(10) || 'x', p, '-') AS r FROM words, (VALUES ('.x'), ('^x'), (NULL)) v(p) ORDER BY id, p
SELECT E'a\nb' ~ 'a.b' || '' AS a
