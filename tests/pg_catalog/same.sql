SELECT relname, relkind, relnatts, relhasindex, relreplident, relpersistence FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
;
SELECT c.relname, a.attname, format_type(atttypid, atttypmod), attnotnull, atthasdef, attnum, attlen, attalign,
attbyval, attstorage, attndims FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE attnum > 0 AND c.relnamespace = 'public'::regnamespace
;
SELECT conname, contype, conkey, confkey, confupdtype, confdeltype, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid IN ('parent'::regclass, 'child'::regclass)
;
SELECT indexrelid::regclass, indrelid::regclass, indkey, indoption, indclass, indisprimary, indisunique, pg_get_indexdef(indexrelid), pg_get_indexdef(indexrelid, 1, true) FROM pg_index WHERE indrelid IN ('parent'::regclass, 'child'::regclass)
;
SELECT table_name, column_name, ordinal_position, is_nullable, data_type, character_octet_length,
numeric_precision, numeric_precision_radix, numeric_scale, datetime_precision, udt_schema, udt_name, dtd_identifier,
is_identity, is_generated, is_updatable FROM information_schema.columns
WHERE table_schema = 'public' AND table_name <> 'v'
;
SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public'
;
SELECT * FROM information_schema.key_column_usage WHERE table_schema = 'public'
;
SELECT * FROM information_schema.constraint_column_usage WHERE table_schema = 'public' AND NOT constraint_name LIKE '%not_null'
;
SELECT constraint_name, unique_constraint_name, match_option, update_rule, delete_rule
FROM information_schema.referential_constraints
;
SELECT table_name, constraint_name, constraint_type FROM information_schema.table_constraints WHERE table_schema = 'public' AND constraint_type <> 'CHECK'
;
SELECT oid, typname, typlen, typtype, typcategory, typelem, typarray, typinput, typreceive, format_type(oid, NULL) FROM pg_type WHERE oid < 10000 AND typtype = 'b' AND typelem NOT IN (SELECT oid FROM pg_type WHERE typtype = 'c')
;
SELECT oid, amname, amtype, amhandler FROM pg_am
;
SELECT oid, opcname, opcmethod, opcintype, opcdefault FROM pg_opclass
;
SELECT i, pg_size_pretty((10 ^ i)::bigint), format_type(1043, i), i::regtype FROM generate_series(16, 18) i WHERE i IN (SELECT oid FROM pg_type)
;
SELECT quote_ident(x), quote_literal(x), x ~ '^a', x LIKE 'a\_%', x || 1 FROM unnest(ARRAY['a_b', 'aXb', 'select', 'It''s']) x, pg_am WHERE amname = 'btree'
;
SELECT to_regclass('no'), to_regtype('int4[]'), 'pg_class'::regclass, 1259::regclass, 'int'::regtype::oid
;
SELECT tablename, hasindexes, hasrules FROM pg_tables WHERE schemaname = 'public'
;
SELECT nspname, 'pg_class'::regclass = 1259 FROM pg_namespace WHERE nspname IN ('pg_catalog', 'public')
;
SELECT array_length(ARRAY[1, 2], 1), array_upper('{}'::int[], 1), array_to_string(ARRAY[1, NULL, 3], ',', '-'), 'parent'::regclass::text, cardinality('{a,b}'::text[]) FROM pg_am WHERE amname = 'btree'
