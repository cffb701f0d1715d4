-- The tables that texts read and change, beside those of each type (tables.py).
CREATE TABLE a (x int, g int);
INSERT INTO a VALUES
  (1, 1),
  (2, 1),
  (2, 2),
  (3, 2),
  (NULL, 1),
  (4, NULL),
  (NULL, NULL),
  (5, 3);

CREATE TABLE b (y int, g int);
INSERT INTO b VALUES
  (1, 1),
  (NULL, 1),
  (2, 2),
  (2, 2),
  (3, 3),
  (6, NULL);

CREATE TABLE c (y int, g int);
INSERT INTO c VALUES
  (1, 1),
  (2, 2),
  (2, 1),
  (5, 3),
  (7, 4);

CREATE TABLE e (y int, g int);

CREATE TABLE nums (id int, g text, x int, y int, d double precision);
INSERT INTO nums VALUES
  (1, 'a', 1, 10, 0.5),
  (2, 'a', 2, NULL, 1.5),
  (3, 'a', 2, 20, NULL),
  (4, 'b', NULL, 5, 2.25),
  (5, 'b', 3, 5, -1),
  (6, NULL, 4, 7, 0.5),
  (7, NULL, NULL, NULL, NULL),
  (8, 'c', -1, 0, 8),
  (9, 'a', 2, 20, 1.5),
  (10, 'b', 3, 6, 0);

CREATE TABLE emp (id int, name text, dept text, salary int, boss int, hired date);
INSERT INTO emp VALUES
  (1, 'Ann', 'eng', 120, NULL, '2020-01-15'),
  (2, 'Bob', 'eng', 100, 1, '2021-03-01'),
  (3, 'Cid', 'eng', 100, 1, '2021-03-01'),
  (4, 'Dee', 'ops', 80, 1, '2022-07-31'),
  (5, 'Eve', 'ops', NULL, 4, '2024-02-29'),
  (6, 'Fay', NULL, 70, 4, NULL),
  (7, 'Gus', 'hr', 60, 9, '2019-12-31');

CREATE TABLE dept (dept text, city text, budget numeric(12, 2));
INSERT INTO dept VALUES
  ('eng', 'Oslo', 1000.50),
  ('ops', 'Rome', NULL),
  ('law', 'Oslo', 20),
  (NULL, 'Paris', 5);

CREATE TABLE stays (id int, guest text, arrives date, leaves date, opened timestamp, closed timestamp, seen timestamptz, lasted interval);
INSERT INTO stays VALUES
  (1, 'Ann', '2024-01-01', '2024-01-05', '2024-01-01 08:00:00', '2024-01-09 08:00:00', '2024-01-01 08:00:00+00', '1 day'),
  (2, 'Bob', '2024-02-28', '2024-03-01', '2024-03-10 01:30:00', '2024-03-10 03:30:00', '2024-03-10 06:30:00+00', '24 hours'),
  (3, 'Ann', '2024-01-31', NULL, '2024-03-10 02:30:00', '2024-03-10 02:45:00', '2024-03-10 07:30:00+00', '1 month'),
  (4, NULL, '2023-12-31', '2024-12-31', '2024-11-03 01:30:00', NULL, '2024-11-03 05:30:00+00', '30 days'),
  (5, 'Eve', NULL, '2024-01-02', '2024-11-03 00:30:00', '2024-11-05 12:00:00', '2024-11-03 06:30:00+00', '1 year 2 mons'),
  (6, 'Eve', '1999-12-31', '2000-01-01', '1969-07-20 20:17:40', '1970-01-01 00:00:00', '1969-07-20 20:17:40+00', '-2 days 3 hours'),
  (7, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE words (id int, w text, n int);
INSERT INTO words VALUES
  (1, 'apple', 2),
  (2, 'Äpfel', 1),
  (3, '', 0),
  (4, NULL, 3),
  (5, 'banana split', -1),
  (6, ' pad ', 4),
  (7, '100%', NULL),
  (8, 'a_b', 1),
  (9, 'O''Brien', 2),
  (10, '日本', 1),
  (11, 'apple', 5);

CREATE TABLE lists (id int, l int[], t text[]);
INSERT INTO lists VALUES
  (1, ARRAY[1, 2, 3], ARRAY['a', 'b']),
  (2, ARRAY[2, NULL], ARRAY['b', NULL]),
  (3, NULL, NULL),
  (4, ARRAY[3, 3, 1], ARRAY['c d', '']),
  (5, ARRAY[7], ARRAY['x']);

CREATE TABLE tree (id int, parent int, label text);
INSERT INTO tree VALUES
  (1, NULL, 'root'),
  (2, 1, 'left'),
  (3, 1, 'right'),
  (4, 2, 'leaf'),
  (5, 2, NULL),
  (6, 3, 'leaf'),
  (7, 6, 'deep');

CREATE TABLE t (k bigint PRIMARY KEY, i bigint DEFAULT 7, v varchar);
INSERT INTO t VALUES
  (1, 2, 'a'),
  (2, 1, 'Ab'),
  (3, NULL, 'b'),
  (4, 4, NULL),
  (5, 5, ''),
  (6, -3, 'c'),
  (7, 2, 'a');

CREATE TABLE s (k bigint, j bigint, w varchar);
INSERT INTO s VALUES
  (1, 10, 'x'),
  (2, NULL, 'y'),
  (4, 3, NULL),
  (8, 8, 'new'),
  (9, NULL, NULL),
  (NULL, 1, 'n');

CREATE TABLE bools (p boolean, q boolean, r boolean);
INSERT INTO bools SELECT * FROM (VALUES (true), (false), (NULL)) v(p)
  CROSS JOIN (VALUES (true), (false), (NULL)) w(q) CROSS JOIN (VALUES (true), (false), (NULL)) u(r);

-- An interval column would take the least and greatest values of all columns from the planner.
CREATE TABLE one (i int, j int, d date, e date, o timestamp, c timestamp, z timestamptz, n numeric(8, 2), f double precision, t text, p boolean);
INSERT INTO one VALUES
  (3, 7, '2024-01-01', '2024-01-05', '2024-01-01 08:00:00', '2024-01-09 12:00:00', '2024-01-05 00:00:00+00', 1.50, 0.25, 'b', true);

CREATE TABLE few (i int, j int, d date, e date, o timestamp, c timestamp, z timestamptz, n numeric(8, 2), f double precision, t text, p boolean);
INSERT INTO few VALUES
  (1, 9, '2023-12-31', '2024-01-05', '2023-12-31 00:00:00', '2023-12-31 23:59:59', '2023-12-31 12:00:00+00', 1.50, 0.25, 'a', true),
  (2, 2, '2024-02-29', '2024-02-29', '2024-02-29 00:00:00', '2024-02-29 12:00:00', '2024-02-29 00:00:00+00', 20.00, -3, 'b', false),
  (3, 1, '2024-03-31', '2024-03-01', '2024-03-10 02:30:00', '2024-03-10 02:30:00', '2024-03-10 02:30:00+00', -7.25, 1e9, 'c', true);
