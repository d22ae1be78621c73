SELECT 5 BETWEEN SYMMETRIC 7 AND 3
SELECT 5 NOT BETWEEN SYMMETRIC 7 AND 3
-- another type
TABLE pg_namespace LIMIT 0
-- another type
SELECT c.conname, array(SELECT attname FROM unnest(c.conkey) WITH ORDINALITY k(n, place) JOIN pg_attribute a ON k.n = a.attnum WHERE a.attrelid = c.conrelid ORDER BY k.place) FROM pg_constraint c JOIN pg_class t ON c.conrelid = t.oid WHERE t.relname = 'nosuch'
SELECT trim(leading from '  x ')
SELECT trim(trailing from '  x ')
SELECT trim(both from '  x ')
SELECT trim(from '  x ')
SELECT trim(leading 'x' from 'xxax')
-- refused
SELECT * FROM generate_series(1.0, 2.0, 0.25)
-- refused
SELECT extract(timezone from timestamptz '2020-01-01 00:00:00+00')
-- refused
SELECT extract(timezone_hour from timestamptz '2020-01-01 00:00:00+00')
-- another type
SELECT extract(julian from timestamp '2020-01-01 12:00:00')
-- another type
SELECT extract(julian from date '2020-01-01')
SELECT extract(millennium from timestamp '2020-01-01 12:00:00')
SELECT extract(century from date '2020-01-01')
SELECT extract(decade from date '2020-01-01')
SELECT extract(isodow from date '2020-01-05')
SELECT extract(isoyear from date '2020-01-05')
SELECT extract(microseconds from timestamp '2020-01-01 12:00:01.5')
-- another type
SELECT extract(milliseconds from timestamp '2020-01-01 12:00:01.5')
-- another type
SELECT extract(epoch from timestamp '2020-01-01 12:00:01.5')
-- another type
SELECT extract(epoch from interval '1 day 2 hours')
SELECT extract(day from interval '40 days 2 hours')
SELECT date_trunc('decade', timestamp '2027-03-04')
SELECT date_trunc('century', timestamp '2027-03-04')
SELECT date_trunc('millennium', timestamp '2027-03-04')
SELECT date_trunc('week', timestamp '2027-03-04')
SELECT date_bin('15 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01'), date_bin('2 days', x, timestamp '2001-01-01') FROM (VALUES (timestamp '2020-02-11 15:44:17')) t(x)
SELECT date_bin('5 months'::interval, timestamp '2020-02-01 01:01:01', timestamp '2001-01-01')
SELECT date_bin('-2 days'::interval, timestamp '1970-01-01 01:00:00', timestamp '1970-01-01 00:00:00')
SELECT date_trunc('milliseconds', timestamp '2027-03-04 01:02:03.456789')
-- refused
SELECT date_trunc('hour', interval '3 days 02:47:33')
SELECT 1.0::float8/0
SELECT 1.0::float8/0.0::float8
SELECT 0.0::float8/0.0::float8
SELECT ln(0.0::float8)
SELECT ln(0)
SELECT ln(-1.0)
SELECT log(0.0)
SELECT log(2.0, 0)
SELECT sqrt(-1.0)
SELECT sqrt(-1.0::float8)
-- another code
SELECT power(0.0, -1.0)
SELECT power(-1.0, 0.5)
SELECT exp(1000.0::float8)
-- PostgreSQL refuses it
SELECT 1e308::float8 * 10
SELECT acos(2.0)
SELECT asin(2)
SELECT mod(5,0)
SELECT gcd(-4, 6), lcm(-4, 6), lcm(0, 5), gcd(12.5, 5), gcd(x, y), lcm(x, y) FROM (VALUES (12::int, 18::int), (NULL, 2)) t(x, y)
SELECT gcd((-2147483648)::int4, 0::int4)
SELECT lcm(2147483647::int4, 2147483646::int4)
SELECT gcd((-9223372036854775808)::int8, 0::int8)
SELECT log(0.0, 12.34)
SELECT scale(1.10), min_scale(1.100), scale(5), min_scale(0.00), scale(x), min_scale(x) FROM (VALUES (1.10), (2.00), (NULL)) t(x)
SELECT 5 % 0
SELECT 5.5 % 0
SELECT row_to_json(t) FROM (SELECT 1 AS a, 'x' AS b) t
SELECT to_json(t) FROM (SELECT 1 AS a, 'x' AS b) t
SELECT json_agg(t) FROM (SELECT 1 AS a, 'x' AS b) t
SELECT json_build_object('u', (SELECT json_agg(x) FROM (VALUES (1), (2)) t(x)), 'n', coalesce(json_agg(y), '[]'), 'c', CASE WHEN max(y) > 1 THEN '{"a":1}'::json END) FROM (VALUES (1), (2)) u(y)
SELECT coalesce(jsonb_agg(x), '[1,{"b":1,"a":2}]'), nullif('{}'::jsonb, '[]') FROM (VALUES (1)) t(x) WHERE x > 1
SELECT coalesce(u, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'), CASE WHEN n = 1 THEN u END FROM (VALUES (1, 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid), (2, NULL)) t(n, u)
SELECT * FROM json_to_record('{"a":1,"b":"x","c":{"d":[1,2]}}') AS x(a int, b text, c json, e date)
SELECT x.a + 1, b FROM jsonb_to_recordset('[{"a":1,"b":"x"},{"a":2,"b":null}]') AS x(a int, b text) ORDER BY a
SELECT v.n, x.* FROM (VALUES (1, '[{"k":"2024-01-05","m":1.50}]'::jsonb), (2, '[]'), (3, NULL)) v(n, j) LEFT JOIN LATERAL jsonb_to_recordset(v.j) AS x(k date, m numeric) ON true ORDER BY v.n
SELECT * FROM json_to_record('{"a":1}') AS x
SELECT t FROM (SELECT 1 AS a, 'x' AS b) t
SELECT count(t), count(DISTINCT t) FROM (SELECT 1 AS a, 'x' AS b) t
SELECT t.x, t, t::text, t IS NULL, t IS NOT NULL, (t).y FROM (VALUES (1, 'x,y'), (2, NULL), (NULL, NULL)) t(x, y) ORDER BY x
SELECT t, count(*) FROM (VALUES (1, 'x'), (1, 'x'), (2, 'y')) t(x, y) GROUP BY t ORDER BY t
SELECT a.x, b, row_to_json(b), b IS NULL, (b).y FROM (VALUES (1), (2)) a(x) LEFT JOIN (VALUES (1, 'y')) b(x, y) ON b.x = a.x ORDER BY a.x
SELECT a.x, count(b), json_agg(b) FILTER (WHERE b.x IS NOT NULL) FROM (VALUES (1), (2)) a(x) LEFT JOIN (VALUES (1, 'y')) b(x, y) ON b.x = a.x GROUP BY a.x ORDER BY a.x
-- refused
SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) FROM (VALUES (1),(2),(3)) t(x)
SELECT sum(x) OVER (ORDER BY x GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM (VALUES (1),(2),(3)) t(x)
SELECT nth_value(x,2) OVER (ORDER BY x) FROM (VALUES (1),(2),(3)) t(x)
SELECT nth_value(x, 0) OVER (ORDER BY x) FROM (VALUES (1)) t(x)
SELECT nth_value(x, -1) OVER (ORDER BY x) FROM (VALUES (1)) t(x)
SELECT ntile(0) OVER (ORDER BY x) FROM (VALUES (1)) t(x)
SELECT count() OVER () FROM (VALUES (1)) t(x)
-- refused
SELECT sum(x) FROM (VALUES (9223372036854775807),(1)) t(x)
SELECT overlay('abcdef' placing 'XX' from 2 for 3)
SELECT position('c' in 'abc')
SELECT substring('abcdef' from 2 for 3)
SELECT substring('abcdef' from '[c-e]+')
SELECT 'abc' SIMILAR TO '(a|b)%'
SELECT 'abc' ~ 'b'
SELECT 'abc' LIKE 'a\_c'
SELECT 'a_c' LIKE 'a\_c'
SELECT 'abc' LIKE 'a!_c' ESCAPE '!'
SELECT 'ABC' ILIKE 'a%'
SELECT format('%s-%I-%L', 'a', 'b c', 'd''e')
SELECT greatest(1, 2, NULL)
SELECT least(NULL, NULL)
SELECT nullif(1, 1.0)
SELECT width_bucket(5.35, 0.024, 10.06, 5)
SELECT string_agg(x, ',' ORDER BY x DESC) FROM (VALUES ('a'),('b')) t(x)
SELECT string_agg(DISTINCT x, ',' ORDER BY x), string_agg(DISTINCT x, ',' ORDER BY x DESC) FROM (VALUES ('a'),('b'),('a'),(NULL)) t(x)
SELECT array_agg(DISTINCT x ORDER BY x)::text, array_agg(DISTINCT x ORDER BY x DESC NULLS LAST)::text, array_agg(DISTINCT x ORDER BY x DESC)::text FROM (VALUES (2),(1),(2),(NULL)) t(x)
SELECT (SELECT pi() FROM (VALUES (1)) t(x) WHERE x > 1) IS NULL, (SELECT current_date FROM (VALUES (1)) t(x) WHERE x > 1) IS NULL
SELECT coalesce(x, 5), x IS NULL FROM (SELECT (SELECT 1 WHERE false) AS x) q
SELECT x FROM (SELECT (SELECT 1 WHERE false) AS x) q WHERE x IS NULL
SELECT coalesce(x, 0) AS y FROM (SELECT (SELECT v.a WHERE v.a > 1) AS x FROM (VALUES (1), (2)) v(a)) q ORDER BY y
SELECT x FROM (VALUES (1), (2)) t(x) WHERE (SELECT now() FROM (VALUES (1)) u(y) WHERE y > 1) IS NOT NULL
SELECT 1 UNION SELECT date '2024-01-01'
SELECT x FROM (VALUES (now()), (NULL)) t(x) UNION ALL SELECT y FROM (VALUES (1), (2)) t(y)
SELECT * FROM (VALUES (1, '[1]'::jsonb), (2, '[]'), (3, NULL)) t(n, j)
-- refused
WITH x AS MATERIALIZED (SELECT random() AS r FROM (VALUES (1), (2)) t(y)) SELECT count(*) FROM x p JOIN x q USING (r)
WITH x AS (SELECT random() < 2 AS r FROM (VALUES (1), (2)) t(y)) SELECT r, count(*) FROM x GROUP BY r
-- refused
SELECT (1, count(*) OVER ()) IN (SELECT 1, 2) FROM (VALUES (1), (2)) t(x)
-- another type: whole constants are bigint
SELECT array_agg(x ORDER BY x) FROM (VALUES (2),(1)) t(x)
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (1),(2)) t(x)
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (1),(2)) t(x)
SELECT mode() WITHIN GROUP (ORDER BY x) FROM (VALUES (1),(2),(2)) t(x)
SELECT bool_and(x) FROM (VALUES (true),(false)) t(x)
SELECT every(x) FROM (VALUES (true),(false)) t(x)
-- another type
SELECT stddev(x), variance(x), stddev_pop(x), var_samp(x) FROM (VALUES (1),(2),(4)) t(x)
SELECT regr_slope(y,x), corr(y,x) FROM (VALUES (1.0,2.0),(2.0,4.1)) t(x,y)
SELECT x FROM (VALUES (1),(2),(3),(4)) t(x) ORDER BY x OFFSET 1 FETCH FIRST 2 ROWS ONLY
SELECT x FROM (VALUES (1),(1),(2)) t(x) ORDER BY x FETCH FIRST 1 ROW WITH TIES
SELECT DISTINCT ON (x) x, y FROM (VALUES (1,2),(1,1),(2,3)) t(x,y) ORDER BY x, y
SELECT * FROM (VALUES (1,2)) t(x,y) NATURAL JOIN (VALUES (1,3)) u(x,z)
SELECT x, grouping(x) FROM (VALUES (1),(2)) t(x) GROUP BY ROLLUP(x) ORDER BY 1 NULLS LAST
SELECT 1 IS DISTINCT FROM NULL
SELECT (1,2) = (1,2)
SELECT (1,2) < (1,3)
-- PostgreSQL refuses it
SELECT ARRAY[1,2,3][2]
-- another type: whole constants are bigint
SELECT ARRAY[1,2] || 3
SELECT array_length(ARRAY[1,2,3],1)
SELECT unnest(ARRAY[1,2])
SELECT * FROM unnest(ARRAY[1,2], ARRAY['a','b']) AS t(a,b)
SELECT cardinality(ARRAY[1,2])
SELECT 2 = ANY(ARRAY[1,2])
SELECT 2 = ALL(ARRAY[2,2])
SELECT -1 <> ALL(ARRAY(SELECT x FROM (VALUES (1), (NULL)) v(x))), -1 = ANY(ARRAY(SELECT x FROM (VALUES (1), (NULL)) v(x)))
SELECT y <> ALL(ARRAY(SELECT x FROM (VALUES (1), (NULL)) v(x))), y = ANY(ARRAY(SELECT x FROM (VALUES (1), (NULL)) v(x))) FROM (VALUES (-1), (1)) w(y)
SELECT '{1,2}'::int[]
SELECT date '2020-01-31' + interval '1 month'
SELECT date '2020-01-31' - date '2020-01-01'
SELECT age(timestamp '2020-03-01', timestamp '2019-01-15')
SELECT justify_interval(interval '35 days 25 hours')
SELECT to_char(timestamp '2020-03-01 13:04:05', 'YYYY-MM-DD HH12:MI:SS AM Day')
SELECT to_char(1234567.891, 'FM9,999,999.00')
SELECT to_date('05 Dec 2000', 'DD Mon YYYY')
SELECT to_timestamp(1284352323.5)
SELECT make_date(2013, 7, 15)
SELECT isfinite(date '2020-01-01')
-- refused
SELECT 'infinity'::timestamp
SELECT now() < 'infinity', date '2024-01-01' > '-infinity', timestamp '2024-01-01' = date 'infinity'
SELECT at, at BETWEEN '-infinity' AND 'infinity', at IN ('infinity'), at >= timestamp '-infinity' FROM (VALUES (timestamp '2024-01-01'), (NULL)) t(at)
SELECT d FROM (VALUES (date '2024-01-01'), (NULL), (date '9999-12-31')) t(d) WHERE coalesce(d, 'infinity'::date) > '2024-06-01'
SELECT 'infinity'::float8
SELECT timestamp 'epoch'
SELECT date 'tomorrow' - date 'today'
SELECT interval '1 year 2 mons' * 2
SELECT interval '1 day' / 2
SELECT interval '1:02:03.5' hour to second, interval '1 2:03' day to minute, interval '1 2:03:04' day to second, interval '2:03' minute to second, interval '1 2' day to hour, interval '1 2:03' hour to minute, interval '2:03' hour to second
SELECT x + interval '2:03' minute to second FROM (VALUES (timestamp '2020-01-01')) t(x)
SELECT time '13:00' + interval '1 hour'
SELECT (timestamp '2020-01-01', timestamp '2020-02-01') OVERLAPS (timestamp '2020-01-15', timestamp '2020-03-01')
SELECT round(2.5), round(-2.5), round(2.5::float8), round(1.005, 2)
-- another type
SELECT trunc(2.567, 2), ceil(2.1), floor(-2.1), sign(-3.2)
SELECT div(7, 2), 7/2, -7/2, 7 % -3
SELECT gcd(12, 18), lcm(4, 6), factorial(5)
SELECT 2 ^ 10, |/ 16.0, @ -5
SELECT 5 & 3, 5 | 3, 5 # 3, ~5, 1 << 3
SELECT md5('a'), sha256('a'::bytea)
SELECT encode('abc'::bytea, 'hex'), decode('616263', 'hex')
SELECT left('abc', -1), right('abc', -1), reverse('abc'), repeat('ab', 2), lpad('a', 3, 'xy'), initcap('hi THERE')
SELECT split_part('a,b,c', ',', -1), strpos('abc', 'c'), translate('abc', 'ab', 'x'), ascii('a'), chr(97)
SELECT concat('a', NULL, 1), concat_ws(',', 'a', NULL, 'b')
SELECT regexp_replace('foobarbaz', 'b..', 'X', 'g'), regexp_match('foobar', '(o+)(b)'), regexp_split_to_array('a b', ' ')
SELECT regexp_count('abcabc', 'b'), regexp_like('abc', 'B', 'i'), regexp_substr('abc', 'b.'), regexp_instr('abc', 'c')
SELECT string_to_array('a,b', ','), array_to_string(ARRAY[1,NULL,2], ',', '*')
SELECT num_nonnulls(1, NULL), num_nulls(1, NULL)
SELECT json_build_object('a', 1, 'b', NULL), jsonb_build_array(1, 'x')
SELECT '{"a": {"b": [1,2]}}'::jsonb #>> '{a,b,0}', '{"a":1}'::json->>'a'
-- refused
SELECT jsonb_path_query('{"a":[1,2]}', '$.a[*]')
SELECT '{"a":1}'::jsonb @> '{"a":1}'::jsonb, '{"a":1}'::jsonb ? 'a'
SELECT jsonb_set('{"a":1}', '{a}', '2')
SELECT jsonb_set('{"a":1}', '{a,b}', '2'), jsonb_set('[1]', '{0,b}', '2')
SELECT jsonb_set('1', '{a}', '2')
SELECT jsonb_insert('{"a": [0,1,2]}', '{a, 1}', '"new"'), jsonb_insert('{"a": [0,1,2]}', '{a, 1}', '"new"', true), jsonb_insert('[1]', '{-5}', '9'), jsonb_insert('{"a":1}', '{}', '9'), jsonb_insert('{"a":1}', '{b,c}', '9')
SELECT jsonb_insert(j, ARRAY['b'], '[2]') FROM (VALUES ('{"a":1}'::jsonb), (NULL)) t(j)
SELECT jsonb_insert('{"a":1}', '{a}', '2')
SELECT '["a",{"b":1}]'::jsonb #- '{1,b}', '[1,2]'::jsonb #- '{-1}', jsonb_delete_path('{"a":1}', '{b}'), j #- '{a}' FROM (VALUES ('{"a":1}'::jsonb)) t(j)
SELECT '1'::jsonb #- '{a}'
SELECT json_strip_nulls('{"b":[1,null,{"c":null}], "a" : "x\u0041"}'), json_strip_nulls(' [ 1, null ] '), json_strip_nulls(j) FROM (VALUES ('{"a":{"b":null}, "a" : 1.50}'::json)) t(j)
SELECT json_object('{a,1,b,"def",c,3.5}'), jsonb_object('{a,1,b,NULL}'), json_object('{a,b}', '{1,2}'), json_object('{}'), json_object(a, a) FROM (VALUES (ARRAY['a','b'])) t(a)
SELECT json_object('{a}')
SELECT json_object('{a,b}', '{1}')
SELECT json_object('{NULL,b}')
SELECT jsonb_contained('{"a":1}', '{"a":1,"b":2}'), jsonb_exists('{"a":1}', 'a'), jsonb_exists_any('{"a":1}', ARRAY['b','a'])
SELECT * FROM json_each('{"a":1}')
SELECT * FROM jsonb_to_recordset('[{"a":1}]') AS t(a int)
SELECT CASE WHEN true THEN 1 ELSE 2.5 END
SELECT 'a' || 1, 1 || 'a'
SELECT '2020-01-01'::date::text, true::text, 1.50::text, 1e20::float8::text
SELECT '0044-03-15 BC'::date, '0044-03-15 10:11:12 BC'::timestamp, 'January 8, 99 BC'::date, '4714-11-24 00:00:00 BC'::timestamp
SELECT date '0044-03-15 BC' < date '2020-01-01', at < '0044-03-15 BC' FROM (VALUES (date '2020-01-01')) t(at)
SELECT '4714-11-23 23:59:59 BC'::timestamp
SELECT '4714-11-23 BC'::date
SELECT date '19990108', date '990108', date '1999.008', date 'J2451187', date 'Jan-08-99', date '1999 08 Jan', date '08 01 1999', date '01/02/03'
SELECT timestamp '20011227T040506.789', timestamp '20011227 040506', timestamp 'Wed Jul 11 10:51:14 2001', timestamp 'J2452271 04:05:06'
SELECT timestamptz '20011227 040506.789-08', timestamptz 'Wed Jul 11 10:51:14 EST 2001', timestamptz 'Wed Jul 11 10:51:14 America/New_York 2001', timestamptz '2024-07-05 10:00:00 CET', timestamptz '2001.12.27 04:05:06.789-08'
SELECT timestamptz 'Wed Jul 11 10:51:14 GMT-4 2001', timestamptz 'Wed Jul 11 10:51:14 PST+03:00 2001', timestamptz '2001-01-01+11'
SELECT '13/05/2024x'::date
SELECT CAST('1' AS int), '1'::smallint, '  2 '::int
SELECT 'abc'::int
SELECT '1.5'::int
SELECT 40000::smallint
-- PostgreSQL refuses it
SELECT 2147483647 + 1
SELECT 9223372036854775807 + 1
SELECT -(-2147483648)
SELECT 1/0
SELECT NULL::int + 1, NULL || 'a'
SELECT x FROM generate_series(1,3) x
SELECT * FROM generate_series('2020-01-01'::timestamp, '2020-01-03', '1 day')
SELECT generate_series(1,3)
SELECT * FROM generate_series(1,3) WITH ORDINALITY
SELECT count(*), sum((a[o] = x)::int) FROM (SELECT ARRAY[i % 3, i % 5, i % 7] a FROM generate_series(1, 2000) i) w, unnest(a) WITH ORDINALITY AS u(x, o)
SELECT * FROM unnest(ARRAY[3, 1], ARRAY['a', 'b', 'c']) WITH ORDINALITY AS u(x, y, o)
SELECT * FROM unnest(NULL::int[]) WITH ORDINALITY
SELECT 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid
SELECT bit_and(x), bit_or(x), bit_xor(x) FROM (VALUES (1),(3)) t(x)
SELECT lag(x) OVER w, lead(x,1,0) OVER w, first_value(x) OVER w, ntile(2) OVER w, cume_dist() OVER w FROM (VALUES (1),(2)) t(x) WINDOW w AS (ORDER BY x)
SELECT x, sum(x) FILTER (WHERE x > 1) OVER () FROM (VALUES (1),(2)) t(x)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM r WHERE n < 3) SELECT * FROM r
WITH a AS MATERIALIZED (SELECT 1 x) SELECT * FROM a
SELECT * FROM (VALUES (1),(2)) t(x), LATERAL (SELECT x*2 AS y) u
SELECT x FROM (VALUES (1),(2)) t(x) EXCEPT ALL SELECT 1
SELECT x FROM (VALUES (1),(2)) t(x) INTERSECT SELECT 1
SELECT EXISTS(SELECT 1), (SELECT 1), 1 IN (SELECT 1), 1 = ANY(SELECT 1)
SELECT 1 AS "select", 2 AS x_1
-- another type
SELECT U&'\0041', E'a\nb', $$x$$, B'101', X'1F'
SELECT 'a' COLLATE "C" < 'b'
SELECT ('2020-01-01 00:00:00+00'::timestamptz AT TIME ZONE 'Europe/Berlin')
SELECT timestamptz '2014-12-10 10:10:10Z' AT TIME ZONE '+02:00', timestamptz '2014-12-10 10:10:10Z' AT TIME ZONE 'est'
SELECT timestamptz '2014-12-10 10:10:10Z' AT TIME ZONE z FROM (VALUES ('+02:00'), ('UTC-3'), ('europe/berlin'), ('<+03>-3'), ('CET'), ('2')) v(z)
SELECT timestamptz '2014-12-10 10:10:10Z' AT TIME ZONE '+0530'
SELECT date_trunc('day', timestamptz '2014-12-10 01:10:10Z', '+02:00')
SELECT make_timestamptz(2014, 12, 10, 10, 10, 10, z) FROM (VALUES ('+2'), ('-05:30'), ('+0530'), ('EDT'), ('America/New_York')) v(z)
SELECT make_timestamptz(2014, 12, 10, 10, 10, 10, '+16')
SELECT make_timestamptz(2014, 12, 10, 10, 10, 10, '2')
-- another type
SELECT date_part('year', date '2020-01-01'), date_bin('15 minutes', timestamp '2020-02-11 15:44:17', timestamp '2001-01-01')
SELECT localtimestamp IS NOT NULL, current_date IS NOT NULL, current_time IS NOT NULL
SELECT starts_with('abc','ab'), 'abc' ^@ 'ab'
SELECT unnest(string_to_array('a,b', ','))
-- another type: whole constants are bigint
SELECT array_position(ARRAY[1,2], 2), array_remove(ARRAY[1,2], 1), array_cat(ARRAY[1],ARRAY[2]), array_append(ARRAY[1],2)
SELECT ARRAY[1,2] @> ARRAY[1], ARRAY[1,2] && ARRAY[2]
SELECT min(x) OVER (PARTITION BY 1 ORDER BY x RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM (VALUES (1),(3)) t(x)
SELECT GREATEST('a','b'), COALESCE(NULL, 'x')
SELECT range_agg(x) FROM (VALUES (1)) t(x)
SELECT date '2020-01-01' + interval '1 hour'
SELECT date '2020-01-01' - interval '1 hour'
SELECT d + interval '90 minutes' FROM (VALUES (date '2020-01-01')) t(d)
SELECT interval '1 hour' + date '2020-01-01'
SELECT d + i FROM (VALUES (date '2020-01-01', interval '2 hours')) t(d,i)
SELECT date '2020-01-01' + time '10:00'
SELECT date '2020-01-01' + 1
SELECT date '2020-01-10' > timestamp '2020-01-09 23:00'
SELECT max(d + interval '1 day') FROM (VALUES (date '2020-01-01')) t(d)
SELECT d FROM (VALUES (date '2020-01-01')) t(d) WHERE d + interval '1 hour' > d
SELECT position('' in 'abc'), octet_length('é'), char_length('é'), bit_length('a')
SELECT to_char(interval '3 hours', 'HH24:MI'), to_char(12, '999'), to_char(-12.5, 'S999D9')
SELECT to_number('1,234.5', '9,999.9')
SELECT to_number('5-', '99999MI'), to_number('5-', 'SG99'), to_number('5-', '99'), to_number('5-1', '999'), to_number('5-1', '99MI'), to_number(x, '999MI') FROM (VALUES ('5-'), ('+5-'), ('7')) t(x)
SELECT array_to_json(ARRAY[1,2]), to_json(1), to_jsonb('a'::text)
SELECT json_object_agg(k, v) FROM (VALUES ('a',1),('b',2)) t(k,v)
SELECT jsonb_agg(x ORDER BY x DESC) FROM (VALUES (1),(2)) t(x)
SELECT jsonb_array_length('[1,2]'), json_typeof('1'), jsonb_pretty('{"a":1}')
SELECT * FROM jsonb_array_elements('[1,2]') WITH ORDINALITY
SELECT jsonb_object_keys('{"a":1,"b":2}')
SELECT '{"a":1}'::jsonb || '{"b":2}', '{"a":1}'::jsonb - 'a', '[1,2]'::jsonb -> -1
SELECT date_trunc('day', timestamptz '2020-01-01 23:30:00+00', 'Europe/Berlin')
SELECT now() - interval '1 day' < now()
SELECT extract(dow from timestamp '2020-01-05'), extract(doy from date '2020-03-01'), extract(week from date '2020-01-01'), extract(quarter from date '2020-05-01')
-- another type
SELECT date_trunc('month', date '2020-01-15')
SELECT 5 / 2.0, 10 / 4, 10.0 / 3, 1.0 / 3.0, 2 / 3.0::float8
SELECT 0.1 + 0.2, 0.1::float8 + 0.2::float8, 1e-7::float8, 1e15::float8, 123456789012345678::float8
-- another value
SELECT 1::real / 3, 1e10::real, 16777217::real
-- another type
SELECT avg(x) FROM (VALUES (1),(2)) t(x)
SELECT avg(x) FROM (VALUES (1.5),(2.25)) t(x)
SELECT sum(x) FROM (VALUES (1.5),(2.25)) t(x)
SELECT interval '1 mon 2 days 03:04:05.678', interval '-1 day', interval 'P1Y2M', interval '100 hours'
-- another code
SELECT time '25:00'
SELECT date '2020-02-30'
-- refused
SELECT timestamp '2020-01-01 24:00:00'
SELECT 'yes'::boolean, 'off'::boolean, 1::boolean, true::int
SELECT 'maybe'::boolean
SELECT 3.7::int, -3.5::int, 2.5::int, 3.5::float8::int, 2.5::float8::int
SELECT 1e10::int
-- refused
SELECT 'NaN'::float8 = 'NaN'::float8, 'NaN'::float8 > 1, 'NaN'::numeric
SELECT substr('abc', 0, 2), substr('abc', -1), left('é', 1)
SELECT ltrim('xxa', 'x'), btrim(' a '), trim(' a ')
SELECT x FROM (VALUES ('b'),('A'),('a'),('B')) t(x) ORDER BY x COLLATE "C"
SELECT x FROM (VALUES (1),(NULL),(2)) t(x) ORDER BY x DESC
SELECT x FROM (VALUES (1),(NULL),(2)) t(x) ORDER BY x USING >
SELECT count(DISTINCT x), count(*) FILTER (WHERE x > 1) FROM (VALUES (1),(2),(2)) t(x)
SELECT x, count(*) FROM (VALUES (1),(2),(2)) t(x) GROUP BY x HAVING count(*) > 1
SELECT x AS y FROM (VALUES (1),(2)) t(x) GROUP BY y ORDER BY y
SELECT x + 1 FROM (VALUES (1),(2)) t(x) GROUP BY 1 ORDER BY 1
SELECT sum(x) FROM (VALUES (1),(2)) t(x) GROUP BY ()
SELECT 1 WHERE false
SELECT 1 LIMIT ALL
SELECT x FROM (VALUES (1),(2)) t(x) LIMIT 1 OFFSET 1 ROWS
SELECT version() LIKE 'PostgreSQL%'
SELECT current_setting('TimeZone')
SELECT quote_ident('a b'), quote_literal('a''b'), quote_nullable(NULL)
-- PostgreSQL refuses it
SELECT array[1,2,3][1:2]
-- another type: whole constants are bigint
SELECT (array[1,2,3])[1:2], (array[1,2,3])[2], (array[1,2,3])[5]
-- another type: whole constants are bigint
SELECT array_agg(DISTINCT x ORDER BY x) FROM (VALUES (2),(1),(2)) t(x)
-- refused
SELECT array_fill(0, ARRAY[2]), array_ndims(ARRAY[[1],[2]]), array_upper(ARRAY[1,2],1), array_lower(ARRAY[1,2],1)
SELECT generate_subscripts(ARRAY[1,2],1)
-- refused
SELECT trim_array(ARRAY[1,2,3],1), array_replace(ARRAY[1,2],1,9), array_prepend(0,ARRAY[1]), array_positions(ARRAY[1,1],1)
SELECT regexp_matches('foobarbequebaz', 'ba.', 'g')
SELECT regexp_split_to_table('a b c', ' ')
SELECT string_to_table('a,b', ',')
SELECT min(x), max(x) FROM (VALUES ('a'),('b')) t(x)
-- another type
SELECT cbrt(27), degrees(pi()), radians(180), atan2(1,1), sinh(1), cot(1), log10(100), log(100), log(2, 8)
-- refused
SELECT sind(30), cosd(60), tand(45)
-- refused
SELECT scale(1.50), min_scale(1.50), trim_scale(1.50)
SELECT make_timestamp(2013,7,15,8,15,23.5), make_time(8,15,23.5), make_interval(days => 10), make_timestamptz(2013,7,15,8,15,23.5)
SELECT clock_timestamp() >= statement_timestamp(), transaction_timestamp() = now()
SELECT isfinite(interval '1 day'), justify_days(interval '35 days'), justify_hours(interval '27 hours')
SELECT x IS NULL, x ISNULL, x NOTNULL FROM (VALUES (1)) t(x)
SELECT true IS UNKNOWN, NULL IS TRUE, false IS NOT TRUE
SELECT 1 <> 2, 1 != 2, NOT true
SELECT 'a' < 'b' AND 'B' < 'a' COLLATE "C"
SELECT ROW(1,'a'), (1,2)
-- refused
SELECT (ROW(1,2)).f1
-- refused
SELECT * FROM ROWS FROM (generate_series(1,2), generate_series(1,3)) AS t(a,b)
SELECT x, y FROM (VALUES (1),(2)) t(x) CROSS JOIN LATERAL generate_series(1, x) y
SELECT grouping(x,y), x, y FROM (VALUES (1,2)) t(x,y) GROUP BY GROUPING SETS ((x),(y),()) ORDER BY 1
SELECT x, y FROM (VALUES (1,2)) t(x,y) GROUP BY CUBE(x,y) ORDER BY 1,2
SELECT corr(x,y), covar_pop(x,y), regr_r2(x,y) FROM (VALUES (1,2),(2,3)) t(x,y)
-- refused
SELECT rank(2) WITHIN GROUP (ORDER BY x) FROM (VALUES (1),(2)) t(x)
SELECT x ISNULL, NULL ISNULL FROM (VALUES (1)) t(x)
SELECT x FROM (VALUES (1),(NULL)) t(x) WHERE x ISNULL
SELECT 1e15::float8, 1.5e3, 1e-7, 2.5E+2, 1e3::int, 12e-1::numeric, -1e2
SELECT 1e300::float8, 1e22::float8
SELECT x / y FROM (VALUES (1.5::float8, 2.0::float8), (NULL, 0), (4, NULL)) t(x, y)
SELECT x / y FROM (VALUES (1.5::float8, 2.0::float8), (1, 0)) t(x, y)
SELECT CASE WHEN y <> 0 THEN x / y END FROM (VALUES (1.5::float8, 2.0::float8), (1, 0)) t(x, y)
SELECT x FROM (VALUES (1.5::float8, 2.0::float8), (1, 0)) t(x, y) WHERE y <> 0 AND x / y > 0.5
SELECT 'Infinity'::float8 / 2.0::float8, 'NaN'::float8 / 0, 1 / 'Infinity'::float8
-- PostgreSQL refuses it
SELECT 1e308::float8 / 1e-308::float8
SELECT ln('Infinity'::float8), ln(NULL::float8), ln(2.718281828459045::float8)
SELECT ln(x) FROM (VALUES (1.0::float8), (0)) t(x)
SELECT log(-1.0::float8)
SELECT log10(0.0::float8)
-- another code
SELECT power(0.0::float8, -1), power(2.0::float8, 10)
SELECT power((-8)::float8, 0.5::float8)
SELECT power((-8)::float8, 3.0::float8), power(0::float8, 0::float8), exp(1::float8)
SELECT power(10::float8, 400::float8)
SELECT acos(1::float8), asin(0.5::float8), acosh(1.0::float8), atanh(0.5::float8)
SELECT acosh(0.5::float8)
SELECT atanh(1.5::float8)
SELECT date_trunc('decade', timestamp '1999-12-31'), date_trunc('century', timestamp '2000-12-31'), date_trunc('century', timestamp '2001-01-01'), date_trunc('millennium', timestamp '2000-06-01')
SELECT date_trunc('microseconds', timestamp '2027-03-04 01:02:03.456789'), date_trunc('milliseconds', timestamp '2027-03-04 01:02:03.456789')
SELECT row_number() OVER (ORDER BY x), rank() OVER (ORDER BY x), dense_rank() OVER (ORDER BY x), ntile(2) OVER (ORDER BY x), row_number() OVER (ORDER BY x) * 2 FROM (VALUES (1),(2)) t(x)
SELECT * FROM (SELECT x, row_number() OVER (ORDER BY x DESC) AS r FROM (VALUES (1),(2),(3)) t(x)) q WHERE r <= 2 ORDER BY r
SELECT array_length(ARRAY[1,2,3],1), array_length(ARRAY[]::int[],1), cardinality(ARRAY[1,2]), array_position(ARRAY[4,5],5), array_position(ARRAY[4,5],6)
SELECT * FROM unnest(ARRAY['a','b']) WITH ORDINALITY
SELECT * FROM generate_series(timestamp '2020-01-01', '2020-01-03', '1 day')
SELECT count(*) FROM (TABLE pg_namespace) t WHERE nspname = 'pg_catalog'
SELECT trim(BOTH 'x' FROM 'xax'), trim(LEADING FROM '  a '), trim(TRAILING FROM ' a  '), trim(FROM ' a ')
SELECT x FROM (VALUES (1),(3),(2)) t(x) ORDER BY x USING >
SELECT x FROM (VALUES (1),(3),(2)) t(x) ORDER BY x USING <, 1
SELECT 'abc' ^@ 'ab', starts_with('abc', 'b')
-- another type
SELECT pg_client_encoding()
SELECT 1 = ANY(SELECT 1)
SELECT 1 = ANY (SELECT 1)
SELECT 1 IN (SELECT 1)
SELECT EXISTS(SELECT 1), 1 = ANY(SELECT 1)
SELECT x FROM (VALUES (1),(2)) t(x) WHERE x = ANY(SELECT 1)
SELECT x FROM (VALUES (1),(2)) t(x) WHERE x > ALL(SELECT 1)
SELECT x > ALL(SELECT 1) FROM (VALUES (1),(2)) t(x)
SELECT 2 > ALL(SELECT 1)
SELECT count(*) FROM (VALUES (1),(2)) t(x) GROUP BY ()
SELECT 1 FROM (VALUES (1),(2)) t(x) GROUP BY GROUPING SETS (())
SELECT to_date('2020','YYYY')
SELECT to_timestamp('2020-01-01 10','YYYY-MM-DD HH24')
SELECT to_date('2020-05','YYYY-MM')
-- refused
SELECT '(1,2)'::text, ARRAY[[1,2],[3,4]], '{}'::int[], ARRAY[]::text[]
SELECT 'a' < 'B', 'a' < 'Z' COLLATE "C"
SELECT date '2020-01-01' = timestamp '2020-01-01'
SELECT '2020-01-01' = date '2020-01-01'
SELECT now()::date = current_date
-- another type
SELECT extract(hour from time '10:20:30'), extract(second from time '10:20:30.5')
-- another type
SELECT extract(epoch from date '2020-01-01')
SELECT date_part('epoch', interval '1 day')
SELECT interval '1 day' > interval '23 hours', interval '1 month' = interval '30 days'
SELECT sum(interval '1 hour' * x) FROM (VALUES (1),(2)) t(x)
-- another type
SELECT avg(x)::int, round(avg(x), 2) FROM (VALUES (1),(2)) t(x)
SELECT round(x::numeric, 1), round(x::float8::numeric, 1) FROM (VALUES (1.25)) t(x)
SELECT x::text || 'a', x || 'a' FROM (VALUES (1.50)) t(x)
SELECT max(x) FROM (VALUES ('2020-01-01'::date)) t(x)
SELECT count(*) FROM (VALUES (1)) t(x) WHERE x::text LIKE '1%'
SELECT lower(x), upper(x), length(x) FROM (VALUES ('Ab')) t(x)
SELECT concat(x, y), x || y FROM (VALUES ('a', NULL)) t(x, y)
SELECT coalesce(sum(x), 0) FROM (VALUES (1)) t(x) WHERE x > 5
SELECT x, count(*) * 100.0 / sum(count(*)) OVER () FROM (VALUES (1),(2),(2)) t(x) GROUP BY x ORDER BY x
select k, count(*) * 100 / sum(count(*)) over () from (values (1),(1),(2)) t(k) group by k order by k
select s / 2, s / n from (select sum(x::bigint) s, count(*) n from (values (1),(2)) t(x)) q
select sum(x) / 2, sum(x) / count(*), sum(case when x > 1 then 1 else 0 end) / count(*), sum(x + 1) / 2, sum(distinct x) / 2 from (values (1),(2)) t(x)
with c as (select k, count(*) n from (values (1),(1),(2)) t(k) group by k) select k, round(100 * n / sum(n) over (), 2), sum(n) over (order by k) / sum(n) over () from c order by k
select sum(x) filter (where x > 1) / 2 from (select x::bigint from generate_series(1, 4) x) q
select sum(x) / 4 from generate_series(1, 4) x
select sum(x) / 2 from unnest(array[1::bigint, 2]) x
select sum(x) / 2 from unnest(array[1, 2]) x
select x / 2 from (select round(7) x) q
select (select sum(b.x) from (values (1::bigint),(2)) b(x) where b.x <= a.x) / 2 from (values (1::bigint),(2)) a(x) order by 1
select a, sum(b) / 2, grouping(a) from (values (1, 1::bigint),(2, 4)) t(a, b) group by rollup(a) order by a
select a from (values (1, 1::bigint),(2, 4)) t(a, b) group by a having sum(b) / 2 > 0.4 and sum(b) / 2 < 1
select max(s) / 2, min(s) / 2, coalesce(sum(s), 0) / 2 from (select sum(x::bigint) s from (values (1, 1),(2, 4)) t(k, x) group by k) q
select (select sum(x::bigint) from (values (1),(2)) t(x)) / 2, (select count(*) from (values (1),(2)) t(x)) / 4
select sum(a - b) / 2 from (values (date '2024-01-06', date '2024-01-01')) t(a, b)
select h / 24, max(h) over () / 24, coalesce(h, 0) / 24 from (select date_part('hour', timestamp '2024-01-01 12:00') h) q
-- another type
select h / 24 > 0.4, round(h / 24, 1), h / 24 * 2.0 = 1 from (select extract(hour from t) h from (values (timestamp '2024-01-01 12:00')) v(t)) q
select sum(h) / 24 > 0.4, avg(h) / 24 > 0.4 from (select extract(hour from t) h from (values (timestamp '2024-01-01 12:00')) v(t)) q
select x / 7 from (select 1 x union all select 0.5) q order by 1
select x / 7 from (select case when v > 1 then v else 0.0 end x from (values (1),(2)) t(v)) q order by 1
select sum(x) / 7 from (select v x from (values (1),(2)) t(v) union all select 0.5 from (values (1)) t(v)) q
select extract(decade from date '2024-05-06'), extract(century from date '2024-05-06'), extract(minute from timestamp '2024-01-01 01:07:00')::int / 5
SELECT percentile_cont(ARRAY[0.25,0.75]) WITHIN GROUP (ORDER BY x) FROM (VALUES (1),(2),(3)) t(x)
-- another type: whole constants are bigint
SELECT array_agg(x) FILTER (WHERE x > 1), array_agg(x) FROM (VALUES (1),(2),(NULL)) t(x)
SELECT string_agg(DISTINCT x, ',' ORDER BY x) FROM (VALUES ('b'),('a'),('b')) t(x)
SELECT first_value(x) OVER (ORDER BY y DESC NULLS LAST), last_value(x) OVER (ORDER BY y ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM (VALUES (1,2),(3,4)) t(x,y)
SELECT x, lag(x, 1, 0) OVER (ORDER BY x), x - lag(x) OVER (ORDER BY x) FROM (VALUES (1),(3)) t(x)
SELECT sum(x) OVER (ORDER BY d RANGE BETWEEN interval '1 day' PRECEDING AND CURRENT ROW) FROM (VALUES (1, date '2020-01-01'), (2, date '2020-01-02')) t(x, d)
SELECT a.x FROM (VALUES (1)) a(x) FULL JOIN (VALUES (2)) b(x) ON a.x = b.x ORDER BY a.x
SELECT * FROM (VALUES (1,2)) a(x,y) JOIN (VALUES (1,3)) b(x,z) USING (x)
SELECT CASE x WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END FROM (VALUES (1),(3)) t(x) ORDER BY 1
SELECT x FROM (VALUES (1),(2),(3)) t(x) WHERE x NOT IN (SELECT NULL::int)
SELECT CAST('2020-01-01 10:00' AS timestamp), '10:00'::time, '2020-01-01 10:00+02'::timestamptz
-- another type
SELECT 'a'::char(3), 'abcdef'::varchar(3), 'abc'::char
SELECT substring('abc', 2), substring('abc' for 2), substr('abc', 2, 1)
SELECT 10 % 3, -10 % 3, 10.5 % 3, mod(-10, 3)
SELECT 1 + NULL, NULL = NULL, NULL IS NULL, NOT NULL
SELECT true AND NULL, false AND NULL, true OR NULL
SELECT 'abc' NOT LIKE 'a%', 'a%c' LIKE 'a\%c', 'abc' LIKE '_b_'
SELECT ceil(1.5), ceil(1.5::float8), floor(-1.5), round(1.5), round(-1.5), trunc(-1.5)
SELECT abs(-1.5), abs(-1), @ -1, sign(0), sign(-2.5::float8)
SELECT 7 / 2, 7.0 / 2, 7 / 2.0, 7::float8 / 2
-- PostgreSQL refuses it
SELECT 1000000 * 1000000
SELECT 3::smallint * 20000::smallint
-- another type
SELECT avg(x), sum(x), count(x) FROM (VALUES (NULL::int)) t(x)
SELECT json_build_object('a', 1)->'a', ('{"a":[1,{"b":2}]}'::jsonb)->'a'->1->>'b'
SELECT jsonb_array_elements('[1,"a",null]')
SELECT jsonb_typeof('[]'), jsonb_typeof('"a"'), json_array_length('[1]')
SELECT '{"a":1}'::jsonb = '{"a": 1}'::jsonb, '{"a":null}'::jsonb->>'a' IS NULL
SELECT to_json('a"b'::text), to_json(ARRAY[1,2]), to_jsonb(1.50)
SELECT row_number() OVER () FROM (VALUES (1),(2)) t(x) ORDER BY row_number() OVER ()
SELECT x FROM (SELECT x, rank() OVER (ORDER BY x) r FROM (VALUES (1),(2)) t(x)) q WHERE r = 1
SELECT regexp_replace('abc', '(b)', '[\1]'), regexp_replace('aaa', 'a', 'b'), 'abc' ~* 'B', 'abc' !~ 'z'
SELECT to_char(1234.5, '9,999.99'), to_char(0.5, '0.00'), to_char(12, '0000'), to_char(-1, '9')
SELECT to_char(date '2020-01-05', 'Dy DD Mon YYYY'), to_char(timestamp '2020-01-05 13:01:02', 'HH24:MI:SS'), to_char(timestamp '2020-01-05', 'IYYY-IW Q DDD')
SELECT greatest(date '2020-01-01', date '2021-01-01'), least(1.5, 2)
SELECT md5('abc'), length(md5('a')), encode(sha256('abc'), 'hex')
-- another type
SELECT EXTRACT(EPOCH FROM (timestamp '2020-01-02' - timestamp '2020-01-01')) / 3600
SELECT date_trunc('hour', timestamp '2020-01-01 10:59:00') + interval '5 min' * (extract(minute from timestamp '2020-01-01 10:59:00')::int / 5)
SELECT (timestamp '2020-01-03' - timestamp '2020-01-01')::text, timestamp '2020-01-03 12:00' - timestamp '2020-01-01'
SELECT generate_series(1, 10, 3), generate_series(3, 1, -1)
SELECT a, b FROM (VALUES (1, ARRAY[1,2])) t(a, arr), unnest(arr) AS b
SELECT position('b' IN 'abc'), strpos('abc', 'z')
SELECT lpad('5', 3, '0'), rpad('a', 3), repeat('-', 3), reverse('abc')
SELECT 'x' IN ('x', 'y'), 1 NOT IN (1, 2), NULL IN (1)
SELECT 1 BETWEEN 0 AND 2, 'b' BETWEEN 'a' AND 'c', 5 NOT BETWEEN 1 AND 4
SELECT 5 BETWEEN SYMMETRIC 4 + 2 AND 1, NULL BETWEEN SYMMETRIC 1 AND 2, 3 BETWEEN SYMMETRIC NULL AND 1, 3 BETWEEN ASYMMETRIC 1 AND 4
SELECT nullif('a', 'a'), nullif(1, 2), coalesce(NULL, NULL, 3)
SELECT count(DISTINCT (x, y)) FROM (VALUES (1,2),(1,2),(1,3)) t(x,y)
SELECT DISTINCT x FROM (VALUES (1),(1),(NULL),(NULL)) t(x) ORDER BY x NULLS FIRST
SELECT x FROM (VALUES ('a'),('B'),('b'),('A')) t(x) ORDER BY lower(x), x
SELECT bool_or(x > 1), bool_and(x > 0), every(x > 1) FROM (VALUES (1),(2)) t(x)
SELECT max(x) - min(x), sum(x) / count(*), sum(x)::numeric / count(*) FROM (VALUES (1),(4)) t(x)
SELECT var_pop(x), stddev_samp(x), covar_samp(x, x) FROM (VALUES (1.0::float8),(2),(4)) t(x)
SELECT to_date(x, 'YYYY') FROM (VALUES ('2020'),(NULL),('1999')) t(x)
SELECT to_timestamp('2020-05-06 07:08','YYYY-MM-DD HH24:MI'), to_timestamp('2020-02','YYYY-MM'), to_date('2020 032', 'YYYY DDD')
SELECT to_date('-44-02-01', 'YYYY-MM-DD'), to_date('-1', 'YYYY'), to_date(x, 'YYYY-MM-DD') FROM (VALUES ('-0044-02-01'), ('2024-02-01')) t(x)
SELECT round(2.567, '1')
SELECT repeat('a', '3')
SELECT substr('abcdef', '3')
SELECT substring('abcdef' from '3')
SELECT lpad('a', '3', 'x')
SELECT split_part('a-b', '-', '2')
SELECT sqrt('4')
SELECT abs('-4')
SELECT power('2', '3')
SELECT make_date('2024', '1', '2')
-- refused
SELECT to_timestamp('5')
SELECT date_trunc('day', '2024-01-02 03:04:05'::timestamp)
-- another type
SELECT array[1, '2']
SELECT 1 WHERE 'true'
SELECT CASE WHEN 'yes' THEN 1 END
SELECT NOT 'f'
SELECT true AND 'no'
SELECT interval '1 day' * '2'
SELECT '2' * interval '1 day'
SELECT now() > '2020-01-01'
SELECT date '2024-01-02' - '2024-01-01'
SELECT date '2024-01-02' + '1'
SELECT timestamp '2024-01-02' + '1 hour'
SELECT chr('65')
SELECT width_bucket(5.0, '0', '10', '5')
SELECT mod(7, '4')
SELECT 7 % '4'
SELECT 7 / '2'
SELECT generate_series(1, '3')
-- refused
SELECT * FROM generate_series('1', 3)
-- PostgreSQL refuses it
SELECT date_part('year', '2024-01-02')
-- PostgreSQL refuses it
SELECT extract(year from '2024-01-02')
SELECT array_length('{1,2}'::int[], '1')
-- refused
SELECT ('{1,2}'::int[])['2']
SELECT trunc(2.567, '1')
SELECT age('2024-02-01', date '2024-01-01')
SELECT least('3', 10)
SELECT max('5')
SELECT '5' + 3
-- another code
SELECT - '5'
SELECT 5 = '5', '5' = 5, 5.5 > '5', 1e0 = '1'
SELECT concat('a', 5, '5')
SELECT format('%s', '5')
SELECT strpos('abc', 'c')
SELECT exp('0'), ln('1'), floor('1.5'), ceil('1.5')
SELECT round('1.5')
-- another code
SELECT to_char('5', '99')
SELECT 1 LIMIT '1'
SELECT x FROM generate_series(1, 3) x ORDER BY x LIMIT 1.6
SELECT 1 LIMIT 'x'
SELECT 1 LIMIT -1
SELECT 1 UNION ALL SELECT '77' ORDER BY 1 DESC
SELECT '77' UNION SELECT 9 ORDER BY 1
SELECT 1.5 UNION ALL SELECT '2' ORDER BY 1
SELECT date '2024-01-01' UNION ALL SELECT '2023-01-01' ORDER BY 1
SELECT 1 UNION ALL SELECT 'x'
SELECT 'a' UNION ALL SELECT 'b'
SELECT count(*), 'x' FROM (SELECT 1 UNION ALL SELECT '1') q
SELECT concat(1, true, false, NULL::boolean), concat_ws('#', true, 2), true || 'x'
SELECT interval '1.5 weeks', interval '-2.5 weeks'
SELECT - interval '1 year 2 months -3 days 4 hours', -interval '1 day'
-- refused
SELECT interval(0) '1 day 01:23:45.6789'
SELECT '10e400'::float8
SELECT '1e-3'::float8, 'infinity'::float8, '1e308'::float8
-- refused
SELECT round(4.5e131071, -131072)
-- refused
SELECT '{{1,2},{3,4}}'::int[]
SELECT '{{},{1}}'::text[]
-- refused
SELECT (SELECT max(b) FROM (VALUES (1)) t(a)) FROM (VALUES (2), (3)) u(b)
-- refused
SELECT a, (SELECT count(*) FILTER (WHERE b <> 0) FROM (VALUES (1)) t(a)) FROM (VALUES (2, 1)) u(a, b)
SELECT (SELECT max(a + b) FROM (VALUES (1)) t(a)) FROM (VALUES (2), (3)) u(b)
-- refused
SELECT a, count(u.*) FROM (VALUES (1), (2)) t(a) LEFT JOIN (VALUES (1)) u(b) ON a = b GROUP BY a
SELECT a, count(u.*) FROM (VALUES (1), (2)) t(a) JOIN (VALUES (1)) u(b) ON a = b GROUP BY a
SELECT x, sum(x) OVER (w RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING), count(*) OVER (w ROWS 1 PRECEDING) FROM generate_series(1, 4) x WINDOW w AS (ORDER BY x)
SELECT x, sum(x) OVER v FROM generate_series(1, 4) x WINDOW w AS (PARTITION BY x % 2), v AS (w ORDER BY x DESC)
SELECT x LIKE 'a\b' ESCAPE '', x LIKE 'a#%' ESCAPE '#', x LIKE 'a' ESCAPE NULL FROM (VALUES ('a\b'), ('a%')) t(x)
SELECT x LIKE 'a' ESCAPE 'ab' FROM (VALUES ('a')) t(x)
SELECT 'abcdefg' SIMILAR TO '_bcd#%' ESCAPE '##'
SELECT 'abcdefg' SIMILAR TO '_bcd%' ESCAPE NULL
SELECT make_date(-44, 3, 15), make_timestamp(-44, 3, 15, 12, 30, 15)
SELECT make_date(0, 7, 15)
SELECT make_date(2023, 2, 29)
SELECT make_timestamp(2023, 2, 9, 25, 0, 0)
SELECT date '1991-02-03' + interval '2 years', date '1991-02-03' - interval '1 day', interval '1 hour' + date '1991-02-03'
SELECT (date '1991-02-03' + interval '2 years')::text, concat(date '1991-02-03' - interval '1 day')
SELECT DISTINCT d - interval '1 month' AS before FROM (VALUES (date '2020-01-31')) v(d) WHERE d + interval '1 day' = date '2020-02-01' ORDER BY before LIMIT 1
SELECT '4.2e9'::numeric, '1.2e-5'::numeric, '-1E3'::numeric(10,2), ' 12 '::numeric, '1.5e2'::numeric + 1
SELECT x::numeric FROM (VALUES ('4.2e3'), ('1e-2')) v(x)
SELECT 1.5 IN ('1.54'), 1.5 BETWEEN '1.54' AND '2', 1.5 NOT IN ('1.50', '7'), nullif(1.5, '1.54'), greatest(1.5, '1.54'), CASE 1.5 WHEN '1.54' THEN 1 ELSE 2 END
SELECT v, v IN ('1.54', '2'), v BETWEEN '1.46' AND '1.54', nullif(v, '1.54'), coalesce(v, '1.54'), least(v, '1.54'), CASE WHEN v > 1 THEN v ELSE '1.54' END FROM (VALUES (1.5), (0.1), (NULL)) t(v)
SELECT 1.5 IN ('x')
SELECT x::numeric, x::numeric * 2, x::numeric * x::numeric > 1.26245679011 FROM (VALUES ('1.123456789012345'), ('2.00000000000001')) v(x)
SELECT '1.123456789012345'::text::numeric, ('{"a":1.12345678901234}'::jsonb ->> 'a')::numeric, '1.123456789012345'::numeric
SELECT (sum(x) / count(*)) * (sum(y) / count(*)) FROM (VALUES (5000000::bigint, 7000000::bigint), (2, 4)) v(x, y)
SELECT '1e5'::float8, '0e400'::float8
SELECT '1e-400'::float8
SELECT '1e40'::float4
SELECT power(1e-200::float8, 2)
SELECT power(0::float8, 2), exp('-infinity'::float8), power('infinity'::float8, -2), acos('nan'::float8)
SELECT exp(-1000::float8)
SELECT asin('infinity'::float8)
SELECT atanh('infinity'::float8)
SELECT power('-infinity'::float8, 3.5)
SELECT '2' ^ 3, 2 ^ '3', 2.5::float8 ^ '2'
SELECT float8(1), int4(2.5), int8('3'), int2(4), float4(0.5), bool('t')
SELECT to_char(5, '"a\"b"9'), to_char(5, '\"9'), to_char(timestamp '2020-01-02', '"y\"y"YYYY')
VALUES (1, generate_series(1, 2))
-- another type: whole constants are bigint
SELECT array_agg(x) FROM (SELECT x FROM (VALUES (2), (1), (3)) t(x) ORDER BY x DESC) s WHERE x <> 2
SELECT string_agg(x, ',') FROM (SELECT x FROM (VALUES ('b', 2), ('a', 1), ('c', 3)) t(x, y) ORDER BY -y) s
SELECT json_agg(s), jsonb_agg(s) FROM (SELECT x, y FROM (VALUES ('b', 2), ('a', 1)) t(x, y) ORDER BY y) s
SELECT json_agg(s) FROM (SELECT x FROM (VALUES ('b', 2), ('a', 1)) t(x, y) ORDER BY y) s
SELECT row_to_json(t), to_jsonb(t), json_build_object('row', t) FROM (SELECT 1 AS a, 'x'::text AS b, NULL::int AS c) t
SELECT json_agg(x) FROM (SELECT x FROM (VALUES (2), (1)) t(x) ORDER BY x) x
SELECT row_to_json(ROW(1, 'a', ROW(2, NULL))), to_jsonb(ROW(1.50)), array_to_json(ARRAY[jsonb '{"a":1}', '{"b":[2,3]}'])
SELECT row_to_json(u) FROM (VALUES (1), (2)) t(a) LEFT JOIN (VALUES (1)) u(b) ON a = b
-- another code
SELECT json_build_object(ARRAY[1, 2], 3)
SELECT 'ab%' LIKE x || '%' ESCAPE '!', 'a_' ILIKE x ESCAPE '!' FROM (VALUES ('a!_'), ('a')) t(x)
SELECT 'a' LIKE 'a!' ESCAPE '!'
SELECT json_agg(e), jsonb_agg(e) FROM jsonb_array_elements('[1,{"a":2}]') e
SELECT key, value FROM jsonb_each('{"b":{"c":2},"a":1}')
SELECT json_agg(q) FROM (SELECT json_build_object('x', x) AS o FROM (VALUES (2), (1)) t(x) ORDER BY x) q
SELECT o || '{"y": 1}', o - 'x', o -> 'x', o::text FROM (SELECT jsonb_build_object('x', x) AS o FROM (VALUES (2)) t(x)) q
SELECT o, count(*) FROM (SELECT jsonb_build_object('x', x % 2) AS o FROM (VALUES (1), (2), (3)) t(x)) q GROUP BY o ORDER BY o::text
SELECT o::text, count(*) FROM (SELECT jsonb_build_object('x', x % 2) AS o FROM (VALUES (1), (2), (3)) t(x)) q GROUP BY o::text ORDER BY 1
SELECT count(*) FROM (SELECT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid AS u) q WHERE u = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'
SELECT u, u::text FROM (SELECT 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'::uuid AS u UNION SELECT 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11') q
SELECT '{"a":1}'::jsonb = '{"a": 1}', '{"a":1}'::jsonb UNION ALL SELECT true, '{"b":2}'::jsonb
SELECT CASE WHEN x > 0 THEN '{"a":1}'::jsonb END FROM (VALUES (1)) t(x)
-- refused
SELECT (SELECT max((SELECT i FROM (VALUES (1, 2)) v(k, i) WHERE k = o.x))) FROM (VALUES (1), (2)) o(x)
SELECT max((SELECT i FROM (VALUES (1, 2)) v(k, i) WHERE k = o.x)) FROM (VALUES (1), (2)) o(x)
-- refused
SELECT CAST(ARRAY[['a', 'b']] AS text[])
SELECT to_timestamp(1262349296.7890123), to_timestamp(-1.5), to_timestamp(0)
SELECT d + interval '1 month', count(*) FROM (VALUES (date '2020-01-31'), (date '2020-01-31')) v(d) GROUP BY d + interval '1 month' HAVING count(*) > 1
SELECT e FROM (SELECT d - interval '1 day' AS e FROM (VALUES (date '2020-01-31')) v(d) LIMIT 5) s ORDER BY e
SELECT x FROM unnest(ARRAY[1,2]) AS x
SELECT sum(x), max(x.x) FROM unnest(ARRAY[1,2]) x
SELECT unnest FROM unnest(ARRAY['a','b'])
SELECT n, x FROM (VALUES (1), (2)) t(n) JOIN unnest(ARRAY[2,3]) x ON x = n
SELECT * FROM unnest(ARRAY[1,2], ARRAY[1,2]) AS t(a,b)
SELECT * FROM unnest(ARRAY[1,2], ARRAY['a','b','c']) WITH ORDINALITY
SELECT t.* FROM (VALUES ('{1,2}'::int[], '{a}'::text[])) v(i, s), unnest(v.i, v.s) t
SELECT count(*), sum(length(s)) FROM (SELECT repeat('x', 100000) s) q, generate_series(1, 9000) u WHERE u % 2 = 0
SELECT count(*), sum(length(s)) FROM (SELECT k, repeat('x', k * 50000) s FROM generate_series(1, 2) k) q JOIN generate_series(1, 9000) u ON k = u % 3
SELECT count(*), sum(u), max(cardinality(a)) FROM (SELECT unnest(a) u, a FROM (SELECT array_agg(g) a FROM generate_series(1, 5000) g) q) z
SELECT count(*), sum(u), count(v), sum(length(s)) FROM (SELECT s, unnest(a) u, unnest(b) v FROM (SELECT repeat('x', 500000 * k) s, ARRAY(SELECT generate_series(1, 90 * k)) a, ARRAY[1, k] b FROM (VALUES (1), (2)) t(k)) q) z
SELECT x FROM unnest(ARRAY[1,2]) AS x(y)
SELECT a FROM generate_series(395, 400) t(a) WHERE a = 0 OR a = 2 OR a = 4 OR a = 6 OR a = 8 OR a = 10 OR a = 12 OR a = 14 OR a = 16 OR a = 18 OR a = 20 OR a = 22 OR a = 24 OR a = 26 OR a = 28 OR a = 30 OR a = 32 OR a = 34 OR a = 36 OR a = 38 OR a = 40 OR a = 42 OR a = 44 OR a = 46 OR a = 48 OR a = 50 OR a = 52 OR a = 54 OR a = 56 OR a = 58 OR a = 60 OR a = 62 OR a = 64 OR a = 66 OR a = 68 OR a = 70 OR a = 72 OR a = 74 OR a = 76 OR a = 78 OR a = 80 OR a = 82 OR a = 84 OR a = 86 OR a = 88 OR a = 90 OR a = 92 OR a = 94 OR a = 96 OR a = 98 OR a = 100 OR a = 102 OR a = 104 OR a = 106 OR a = 108 OR a = 110 OR a = 112 OR a = 114 OR a = 116 OR a = 118 OR a = 120 OR a = 122 OR a = 124 OR a = 126 OR a = 128 OR a = 130 OR a = 132 OR a = 134 OR a = 136 OR a = 138 OR a = 140 OR a = 142 OR a = 144 OR a = 146 OR a = 148 OR a = 150 OR a = 152 OR a = 154 OR a = 156 OR a = 158 OR a = 160 OR a = 162 OR a = 164 OR a = 166 OR a = 168 OR a = 170 OR a = 172 OR a = 174 OR a = 176 OR a = 178 OR a = 180 OR a = 182 OR a = 184 OR a = 186 OR a = 188 OR a = 190 OR a = 192 OR a = 194 OR a = 196 OR a = 198 OR a = 200 OR a = 202 OR a = 204 OR a = 206 OR a = 208 OR a = 210 OR a = 212 OR a = 214 OR a = 216 OR a = 218 OR a = 220 OR a = 222 OR a = 224 OR a = 226 OR a = 228 OR a = 230 OR a = 232 OR a = 234 OR a = 236 OR a = 238 OR a = 240 OR a = 242 OR a = 244 OR a = 246 OR a = 248 OR a = 250 OR a = 252 OR a = 254 OR a = 256 OR a = 258 OR a = 260 OR a = 262 OR a = 264 OR a = 266 OR a = 268 OR a = 270 OR a = 272 OR a = 274 OR a = 276 OR a = 278 OR a = 280 OR a = 282 OR a = 284 OR a = 286 OR a = 288 OR a = 290 OR a = 292 OR a = 294 OR a = 296 OR a = 298 OR a = 300 OR a = 302 OR a = 304 OR a = 306 OR a = 308 OR a = 310 OR a = 312 OR a = 314 OR a = 316 OR a = 318 OR a = 320 OR a = 322 OR a = 324 OR a = 326 OR a = 328 OR a = 330 OR a = 332 OR a = 334 OR a = 336 OR a = 338 OR a = 340 OR a = 342 OR a = 344 OR a = 346 OR a = 348 OR a = 350 OR a = 352 OR a = 354 OR a = 356 OR a = 358 OR a = 360 OR a = 362 OR a = 364 OR a = 366 OR a = 368 OR a = 370 OR a = 372 OR a = 374 OR a = 376 OR a = 378 OR a = 380 OR a = 382 OR a = 384 OR a = 386 OR a = 388 OR a = 390 OR a = 392 OR a = 394 OR a = 396 OR a = 398 OR a IS NULL ORDER BY 1
SELECT a, a <> 0 AND a <> 1 AND a <> 2 AND a <> 3 AND a <> 4 AND a <> 5 AND a <> 6 AND a <> 7 AND a <> 8 AND a <> 9 AND a <> 10 AND a <> 11 AND a <> 12 AND a <> 13 AND a <> 14 AND a <> 15 AND a <> 16 AND a <> 17 AND a <> 18 AND a <> 19 AND a <> 20 AND a <> 21 AND a <> 22 AND a <> 23 AND a <> 24 AND a <> 25 AND a <> 26 AND a <> 27 AND a <> 28 AND a <> 29 AND a <> 30 AND a <> 31 AND a <> 32 AND a <> 33 AND a <> 34 AND a <> 35 AND a <> 36 AND a <> 37 AND a <> 38 AND a <> 39 AND a <> 40 AND a <> 41 AND a <> 42 AND a <> 43 AND a <> 44 AND a <> 45 AND a <> 46 AND a <> 47 AND a <> 48 AND a <> 49 AND a <> 50 AND a <> 51 AND a <> 52 AND a <> 53 AND a <> 54 AND a <> 55 AND a <> 56 AND a <> 57 AND a <> 58 AND a <> 59 FROM (VALUES (59), (60), (NULL)) t(a) ORDER BY 1
SELECT false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR NULL, true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND true AND NULL, NULL OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR false OR true
SELECT g, n FROM generate_series(1, 2) g(n)
SELECT value FROM jsonb_array_elements('[1,{"a":2}]'::jsonb)
SELECT * FROM json_array_elements_text('["a",null]') e
SELECT e.value->>'x' FROM jsonb_array_elements('[{"x":1}]'::jsonb) e
SELECT e, e->>'x', e.value FROM jsonb_array_elements('[{"x":2},{"x":1}]'::jsonb) e WHERE e->>'x' > '0' ORDER BY e->>'x'
SELECT e, count(*) FROM jsonb_array_elements_text('["b","a","b"]'::jsonb) e GROUP BY e ORDER BY e
SELECT DISTINCT e FROM jsonb_array_elements_text('["b","a","b"]'::jsonb) e ORDER BY e
SELECT json_array_elements FROM json_array_elements('[1,2]')
SELECT n, a->>'k', b FROM (VALUES (1, '[{"k":"x","l":[1,2]},{"k":"y","l":[]}]'::jsonb)) t(n, j), jsonb_array_elements(t.j) a, jsonb_array_elements(a->'l') b
SELECT n, j->>0 FROM (VALUES (1, '[1,2]'::jsonb)) t(n, j), jsonb_array_elements(j) j
SELECT n, e FROM (VALUES (1, '[1,2]'::jsonb), (2, '[]'::jsonb)) t(n, j) LEFT JOIN LATERAL jsonb_array_elements(j) e ON true
SELECT * FROM jsonb_each('{"a":1}'::jsonb) t(k)
SELECT * FROM json_each_text('{"a":1,"b":null}') WITH ORDINALITY
SELECT ARRAY['a'] || '{b}', '{b}' || ARRAY['a'], ARRAY['a'] || NULL, NULL || ARRAY['a'], ARRAY['a'] || NULL::text
SELECT v || NULL, v || '{3}', '{3}' || v FROM (VALUES ('{1,NULL}'::int[]), (NULL), ('{}'::int[])) t(v)
SELECT ARRAY['a'] || 'b'
SELECT 'b'::text[]
SELECT v = '{1,2}', '{1,2}' = v, v <> '{}', v < '{1,3}' FROM (VALUES ('{1,2}'::int[]), (NULL), ('{}'::int[]), ('{1,NULL}'::int[])) t(v)
SELECT v @> '{1}', v <@ '{1,2,3}', v && '{2,5}', '{1}' <@ v FROM (VALUES ('{1,2}'::int[]), (NULL), ('{}'::int[]), ('{1,NULL}'::int[])) t(v)
SELECT ARRAY['a','b'] && '{b}', ARRAY['a','b'] @> '{c}'
SELECT coalesce(array_agg(x), '{}') FROM (VALUES ('a'), ('b')) t(x) WHERE x > 'b'
SELECT coalesce(v, '{7}'), coalesce(NULL, v, '{}') FROM (VALUES ('{1,2}'::int[]), (NULL)) t(v)
SELECT s::int[], s::text[] FROM (VALUES ('{1,2}'), ('{}'), (NULL), ('{NULL,3}')) t(s)
SELECT s::text[] FROM (VALUES ('{a}'), ('b')) t(s)
SELECT (ARRAY['a','b','c'])[-1:], (ARRAY['a','b','c'])[:-1], (ARRAY['a','b','c'])[-1:2], (ARRAY['a','b','c'])[2:0]
SELECT v[n:], v[:n], v[n:n + 1], v[NULL:n] FROM (VALUES ('{1,2,3}'::int[], -1), ('{1,2,3}'::int[], 0), ('{1,2,3}'::int[], 2), ('{1,2,3}'::int[], NULL), (NULL, 1)) t(v, n)
SELECT array_remove(ARRAY['a',NULL], NULL), array_remove(ARRAY['a',NULL,'b','a'], 'a'), array_remove(ARRAY['a'], 'a')
SELECT array_remove(v, n::int) FROM (VALUES ('{1,NULL,2}'::int[], NULL), ('{1,NULL,2}'::int[], 1), ('{}'::int[], 1), (NULL, 1)) t(v, n)
SELECT ARRAY[1,NULL] < ARRAY[1,2], ARRAY[1,NULL] > ARRAY[1,2], ARRAY[1] < ARRAY[1,NULL], ARRAY[1,NULL] <= ARRAY[1,NULL], ARRAY[1,2] >= NULL
SELECT ARRAY[NULL::int] @> ARRAY[NULL::int], ARRAY[1,NULL] <@ ARRAY[1,NULL], ARRAY[1,NULL] && ARRAY[NULL::int], ARRAY[1,NULL] @> '{}'
SELECT a.v < b.v, a.v >= b.v, a.v <@ b.v, a.v @> b.v, a.v && b.v FROM (VALUES ('{1,2}'::int[]), (NULL), ('{}'::int[]), ('{1,NULL}'::int[])) a(v), (VALUES ('{1}'::int[]), (NULL), ('{NULL}'::int[]), ('{}'::int[])) b(v)
SELECT array_dims(ARRAY['a','b']), array_dims('{}'::int[]), array_ndims('{}'::int[]), array_ndims(ARRAY['a'])
SELECT array_dims(v), array_ndims(v) FROM (VALUES ('{1,2}'::int[]), (NULL), ('{}'::int[])) t(v)
SELECT 1 && 2
SELECT e FROM jsonb_array_elements_text('["a","c"]'::jsonb) e WHERE EXISTS (SELECT 1 FROM (VALUES ('a'), ('b')) t(k) WHERE t.k = e)
SELECT e, (SELECT count(*) FROM (VALUES ('a'), ('b')) t(k) WHERE t.k = e) FROM jsonb_array_elements_text('["a","c"]'::jsonb) e
SELECT (SELECT max(k) FROM (VALUES (1), (2)) t(k) WHERE t.k = x) AS m FROM (VALUES (1), (7)) v(x)
SELECT (SELECT x FROM (VALUES (1), (2)) t(x))
select -2 ^ 2, 3 - -2 ^ 2, @ -5 + 3, |/ 9 + 16, ~ 0 + 1, -2 ^ 3 ^ 2, - (2 ^ 2)
select distinct on (1) x from (values (1),(2),(1)) t(x) order by 1
select x, lag(x, null) over (order by x) from (values (1),(2)) t(x)
select (date '2024-01-30' + 1)::text, concat(date '2024-01-30' + 1), (date '2024-01-30' + interval '1 day')::text
select (d + 1)::text, d + 1, (d + interval '1 day')::text from (values (date '2024-01-30')) t(d)
set timezone='Europe/Berlin'
select date_trunc('month', x)+interval '1 month', x + interval '1 day', x + interval '24 hours', x - interval '1 mon 2 days 03:00' from (values (timestamptz '2022-12-15 00:00+00'), ('2024-03-30 12:00+00')) t(x)
select x + n * interval '1 day', interval '1 month' + x from (values (timestamptz '2024-03-30 12:00+00', 1), ('2024-10-26 12:00+00', 1)) t(x, n)
reset timezone
select '2024-01-01'::timestamp - '2023-01-01'::timestamp between interval '1 day' and interval '2 years' a, '2024-01-01'::timestamp - '2023-01-01'::timestamp between '1 day' and '9 days' b
select a - b between '1 day' and '9 days', a-b > '1 day', a - b in (interval '24 hours', '2 days'), (a-b)*2, (a-b)/2, coalesce(a-b, interval '1 day'), extract(day from coalesce(a-b, interval '1 day')) from (values (timestamp '2024-01-03', timestamp '2024-01-01')) t(a,b)
-- another type
select extract(second from interval '1 day 02:03:04.567'), extract(milliseconds from interval '1 min 1.5 sec'), extract(epoch from interval '1 year 2 months 3 days 04:05:06.7'), extract(century from interval '250 years'), extract(decade from interval '25 years'), extract(quarter from interval '7 months'), extract(hour from interval '49 hours'), extract(month from interval '14 months')
-- another type
select date_part('second', timestamp '2024-01-01 01:02:03.456'), date_part('milliseconds', timestamp '2024-01-01 01:02:03.456'), date_part('century', timestamp '1999-01-01'), extract(millennium from date '2001-01-01'), date_part('epoch', interval '1 day')
select i from (values (interval '1 month'), ('29 days'), ('31 days'), ('720 hours 1 sec')) t(i) order by i
select interval '30 days' = interval '1 month', interval '1 month' < i from (values (interval '31 days')) t(i)
select timestamp '2024-07-01 3:04 pm', timestamp '2024-07-01 12:04:05 AM', '11:30 pm'::time
select timestamp '2024-07-01 03:04:05 foo'
select date_trunc('millisecond', timestamp '1969-12-31 23:59:59.9999'), date_trunc('millisecond', x) from (values (timestamp '1969-12-31 23:59:58.123456')) t(x)
select timestamp '9999-12-31', timestamp '9999-12-31' > now(), date '9999-12-31' + interval '1 day', timestamptz '9999-12-31 00:00+00', timestamp '0001-01-01'
select age(timestamp '9999-12-31', timestamp '2024-01-01')
select coalesce(f, 0.1)/2, case when f > 0 then f else 0.5 end / 3 from (values (1.5::float8)) t(f)
select v, count(*) from (values (1)) s(v) where false group by rollup (v)
select '2024-01-31'::date + 1, '2024-01-31'::date - 1, d + n from (values (date '2024-01-31', 3)) t(d, n)
select sum(a - b), avg(a-b), max(a-b) from (values (timestamp '2024-01-03', timestamp '2024-01-01'), ('2024-01-05', '2024-01-01')) t(a,b)
select timestamptz '2024-03-30 12:00+00' + interval '1 day'
select generate_series(timestamptz '2024-03-30 12:00+00', timestamptz '2024-04-01 12:00+00', interval '1 day')
select x, x::int=2, x::int>=2.5, x::int in (2,3) from (values (1.6),(2.7)) v(x)
select count(*) from (values (timestamp '2024-01-01 22:30'),('2024-01-01 03:00')) t(ts) where ts::time >= '22:00'
select sum(case when v>1 then 1 else 0.0 end)/count(*) from (values (1),(2),(3)) t(v)
set timezone='America/New_York'
select count(*) from (values (timestamptz '2024-03-10 04:30+00'),('2024-03-11 03:30+00'),('2024-03-11 04:30+00')) t(c) where c >= timestamp '2024-03-10 00:00' and c < timestamp '2024-03-11 00:00'
select timestamptz '2024-07-01 12:00' - timestamp '2024-07-01 10:00', 'epoch'::timestamptz, localtimestamp = now()::timestamp, created_at - created_at::date from (values (timestamptz '2024-03-10 12:30+00')) t(created_at)
select date '2024-01-01' at time zone 'UTC', timestamptz '2024-07-01 12:00' = date '2024-07-01'
reset timezone
select -v as v from (values (1),(2)) t(v) order by v + 0
select v % 2 as v, count(*) from (values (1),(2),(3)) t(v) group by v % 2, t.v order by abs(t.v)
select sum(b) as b from (values (1,2),(1,3)) t(a,b) group by a order by sum(b)
select to_char(d,'Mon') as d from (values (date '2024-04-01'),(date '2024-01-01')) t(d) order by extract(month from d)
select a as b, b as a from (values (1,2),(3,1)) t(a,b) order by a + 0
select sum(x), sum(x::int), sum(x::numeric(5,1)) from (values (1.5::float8),(2.25)) t(x)
select count(distinct c::date), count(distinct c) from (values (timestamp '2024-01-01 01:00'),('2024-01-01 02:00')) t(c)
select c::date, c, count(*) from (values (timestamp '2024-01-01 01:00'),('2024-01-01 02:00')) t(c) group by c::date, c order by 1, 2
select c::date, c::text, count(*) from (values (timestamp '2024-01-01 01:00'),('2024-01-01 02:00')) t(c) group by 1, 2 order by 1, 2
select t < time '12:00', t between time '01:00' and time '03:00', coalesce(t, time '00:00') from (values (time '02:00')) v(t)
select x from unnest(array[1,2]) as x
select value from jsonb_array_elements('[1,2]'::jsonb)
select e->>'x', e.value->>'x' from jsonb_array_elements('[{"x":1}]'::jsonb) e
select key, value from json_each('{"a":1}')
select * from unnest(array[1,2], array['a','b','c']) as t(a,b)
-- another type
select array[1,2] || null, array[1,2] = '{1,2}', array[1,2] @> '{1}', (array[1,2,3])[-1:], array[1,null] < array[1,2], array_remove(array[1,null], null), array_dims(array[1,2]), coalesce(array_agg(x), '{}') from (values (1)) t(x)
select x::time, x::date from (values (timestamptz '2024-01-01 22:30+00')) t(x) where x::time > '21:00' and x::date = '2024-01-01'
select distinct on (2) x from (values (1)) t(x)
select '5'::text::interval, x::interval from (values ('1 day 02:30'), ('P1DT2H'), ('30')) t(x)
select 1.5 = '1.54', 1.5 < '1.54', x = '0.1000000001' from (values (0.1)) t(x)
select round(7) / 2, round(x) / 2 from (values (7)) t(x)
-- another type
select array_replace(array[1,1,2], 1, 9)
select lpad('abc', n), rpad('abc', n) from (values (-1), (2), (5)) t(n)
select (array_agg(distinct b order by b))[2] from (values (1),(1),(0)) t(b)
select (array_agg(a order by b desc))[1], (array_agg(b order by a))[1] from (values (1,2),(2,1)) t(a,b)
select now() < timestamptz '9999-12-31', current_timestamp = now(), localtimestamp = now()::timestamp
select x from (values (date '2024-01-01'), ('2024-01-02')) t(x) where x < timestamp '9999-12-31'
-- another type
select max(timestamptz '2024-02-01 00:00:00+00'), max(timestamp '2024-02-01 00:00:00')
select extract(week from interval '7 days')
select count(*) from (values (timestamp '2024-01-01 00:30'), (timestamp '2024-01-01 23:30')) t(ts) where ts::time > '23:00'
select min(ts::time), max(ts::time) from (values (timestamp '2024-01-01 23:30'), (timestamp '2024-01-02 00:30')) t(ts)
select count(*) from (values (date '2024-01-10')) t(e) where e - date '2024-01-01' > 3
select upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper(upper('a'))))))))))))))))))))))
select ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
select * from (select 1 as k, count(*) from (values (1)) t) x where k = 2
select n from (select count(*) n, 'a' k from (values (1)) t union all select count(*), 'b' from (values (1),(2)) t) x where k = 'b'
select count(*) from (values (1)) t having (select count(*) from (values (1)) u) > 1
SELECT count(*) FROM (VALUES (1), (2)) t(a) HAVING count(*) > 0 AND (SELECT count(*) FROM (VALUES (1)) u) > 1
select 'b' as t, v - 10 as x from (values (1),(2)) g(v) union all select 'a', v from (values (5),(6)) h(v) order by t, x limit 2
select count(*) from (values (date '2024-01-01'),(date '2024-01-02')) t(x) where date '2024-01-01' = x and x = date '2024-01-01'
select count(*) from (values (date '2024-01-01'),(date '2024-01-02')) t(x) where x >= date '2024-01-01' and date '2024-01-01' < x
SELECT true = 't', 'no' <> true, (1 = 1) = 'yes'
SELECT true = 'x'
SELECT b = 'true', b IN ('t', 'off'), b NOT IN ('f'), b BETWEEN 'f' AND 't' FROM (VALUES (true), (false), (NULL)) v(b)
SELECT CASE b WHEN 't' THEN 1 WHEN 'f' THEN 0 END FROM (VALUES (true), (false)) v(b)
SELECT b IN ('maybe') FROM (VALUES (true)) v(b)
SELECT u IN ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11') FROM (VALUES (uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')) v(u)
SELECT sha256('\x01'), sha224(x) FROM (VALUES ('\x01'::bytea)) v(x)
SELECT encode('\x01', 'base64'), encode(x, 'base64'), encode(x, 'escape'), encode(x, 'HEX') FROM (VALUES ('\x0041ff5c'::bytea), ('\x'::bytea), (NULL)) v(x)
SELECT encode(decode(repeat('ab', n), 'hex'), 'base64') FROM (VALUES (56), (57), (58), (114)) v(n)
SELECT decode('AQ', 'base64')
SELECT decode(t, 'base64'), decode(t, 'escape') FROM (VALUES ('AQ=='), ('A Q I =')) v(t)
SELECT encode('\x01', 'base32')
SELECT get_byte('\x0102'::bytea, 1), get_bit('\x0102'::bytea, 9), set_byte('\x0102'::bytea, 0, 255), set_bit('\x0102'::bytea, 8, 1)
SELECT get_byte(x, 0), get_bit(x, 3), octet_length(x), bit_length(x), length(x) FROM (VALUES ('\x0102'::bytea), (NULL)) v(x)
SELECT octet_length('é'), bit_length(t) FROM (VALUES ('é')) v(t)
SELECT get_byte('\x0102', 2)
SELECT set_bit('\x0102'::bytea, 0, 2)
SELECT current_setting('server_encoding'), current_setting('nosuch', true), current_setting('app.nosuch', true)
SELECT current_setting('nosuch')
SELECT current_setting('app.nosuch')
SELECT set_config('app.id', '7', false), set_config('bytea_output', 'HEX', true), set_config('work_mem', '4096', true)
SELECT set_config('nosuch', '1', false)
SELECT set_config('work_mem', '4 elephants', false)
SELECT 'a%' LIKE 'a!%' ESCAPE '!'
SELECT count(*) > 20 FROM pg_type t JOIN pg_proc proc ON proc.oid = t.typreceive WHERE proc.proname = 'array_recv'
SELECT t.typname::text, t.typreceive::oid::int FROM pg_type t WHERE t.oid IN (16, 1007, 2249) ORDER BY 1
SELECT typname::text FROM pg_type WHERE typinput::oid = 1242 ORDER BY 1
SELECT n.nspname::text, (SELECT count(*) > 0 FROM pg_namespace m WHERE m.oid = n.oid) FROM pg_namespace n WHERE n.nspname = 'public'
SELECT n.nspname::text, (SELECT m.nspname::text FROM pg_namespace m WHERE m.oid = n.oid LIMIT 1) FROM pg_namespace n WHERE n.nspname = 'public'
SELECT json_build_object('n', nspname) FROM pg_namespace WHERE nspname = 'public'
SELECT json_agg(json_build_object('n', nspname)) FROM pg_namespace WHERE nspname = 'public'
SELECT n.nspname::text, n.nspname = ANY(current_schemas(true)) FROM pg_namespace n WHERE n.nspname = 'public'
-- another type
SELECT n.nspname, n.* FROM pg_namespace n LIMIT 0
SELECT current_schemas(true)::text[], current_schemas(false)::text[]
SELECT nspname = ANY(current_schemas(nspname = 'public')) FROM pg_namespace WHERE nspname = 'pg_catalog'
SELECT format_type(99999, NULL), format_type(0, NULL), format_type(NULL, NULL), format_type(1007, -1), format_type(1700, 983046)
-- another type
SELECT oid::int, format_type(oid, NULL) FROM pg_type WHERE oid IN (16, 18, 23, 700, 1007, 1043, 1114, 1184, 1231, 1562, 2950) ORDER BY 1
SELECT pg_get_expr(NULL, 0), pg_get_partkeydef(0)
SELECT pg_encoding_to_char(6)::text, pg_encoding_to_char(8)::text, pg_encoding_to_char(-1)::text, pg_encoding_to_char(NULL)::text
SELECT pg_encoding_to_char(encoding)::text FROM pg_database WHERE datname = current_database()
SELECT pg_typeof(ARRAY[1::int])::text, pg_typeof(ARRAY['a'])::text, pg_typeof(ARRAY[1.5::float8])::text
SELECT pg_size_bytes('1.5 MB'), pg_size_bytes('10'), pg_size_bytes('-3 kB')
SELECT pg_size_bytes(nspname || '1 kB') FROM pg_namespace WHERE nspname = 'public'
SELECT octet_length('\x0102'::bytea), octet_length('é')
SELECT octet_length(nspname::text) FROM pg_namespace WHERE nspname = 'public'
-- another type
SELECT N'x', current_role = current_user
-- another type
SELECT pg_sleep(0)
SELECT pg_sleep(n::float8 / 1000) IS NULL FROM generate_series(1, 2) n
SELECT pg_try_advisory_lock(1), pg_advisory_unlock(1)
SELECT pg_is_other_temp_schema(11), pg_postmaster_start_time() < now(), pg_blocking_pids(0)
SELECT not pg_is_other_temp_schema(oid) FROM pg_namespace WHERE nspname = 'public'
SELECT txid_current() > 0
SELECT count(*) FROM pg_class WHERE xmin IS NULL
SELECT count(*) FROM pg_roles WHERE rolname = current_user
SELECT count(*) FROM pg_user WHERE usename = current_user AND usesuper IS NOT NULL
SELECT count(*) FROM pg_sequences WHERE schemaname = 'nowhere'
SELECT count(*) FROM pg_stat_ssl WHERE pid = 0
SELECT count(*) FROM information_schema.sequences WHERE sequence_schema = 'nowhere'
-- another type
SELECT * FROM information_schema.triggers LIMIT 0
-- another type
SELECT * FROM information_schema.tables LIMIT 0
SELECT character_set_name::text, character_repertoire::text FROM information_schema.character_sets
SELECT schema_name::text FROM information_schema.schemata WHERE schema_name = 'information_schema'
SELECT count(*) FROM information_schema.enabled_roles WHERE role_name = current_user
SELECT table_type::text, is_typed::text FROM information_schema.tables WHERE table_schema = 'information_schema' AND table_name = 'columns'
SELECT name FROM pg_show_all_settings() WHERE name = 'bytea_output'
SELECT count(*) FROM pg_class WHERE oid = ('nowhere' || '.x')::text::regclass AND false
SELECT a, c, count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ROLLUP (1, 2) ORDER BY 1, 2, 3
SELECT a, c, count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ROLLUP ((a, b), c) ORDER BY 1, 2, 3
SELECT a, c, count(*), grouping(a), grouping(c) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY GROUPING SETS (ROLLUP (a), CUBE (c)) ORDER BY 1, 2, 3, 4, 5
SELECT a, c, count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY GROUPING SETS ((a, c), GROUPING SETS ((a), ())) ORDER BY 1, 2, 3
SELECT a, count(*), grouping(a) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ROLLUP (a, a) ORDER BY 1, 2, 3
SELECT a, c, count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY DISTINCT ROLLUP (a, c), ROLLUP (a) ORDER BY 1, 2, 3
SELECT a, c, count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ALL ROLLUP (a, c), ROLLUP (a) ORDER BY 1, 2, 3
SELECT round(d, 1) AS r, count(*), grouping(round(d, 1)) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ROLLUP (round(d, 1)) ORDER BY 1, 2, 3
SELECT d::int AS k, count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ROLLUP (d::int) ORDER BY 1, 2
SELECT a::text AS k, count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ROLLUP ((a)::text) ORDER BY 1, 2
SELECT a, c, count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY (a, c), ROLLUP (b) ORDER BY 1, 2, 3
SELECT count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ()
SELECT 7 AS x FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ()
SELECT a FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ()
SELECT count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY ROLLUP ('a')
SELECT a FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY 'a'
SELECT a FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY 3
SELECT a FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY count(*)
SELECT count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) GROUP BY 1
SELECT a FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) ORDER BY 'x'
SELECT a FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) ORDER BY -1
SELECT a AS x, b AS x FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) ORDER BY x
SELECT a FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) WHERE row_number() OVER () = 1
SELECT 1 FROM (VALUES (1)) t(a) JOIN (VALUES (1)) u(b)
SELECT count(a, b) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)
SELECT count(DISTINCT *) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)
SELECT 'x' AS r FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) HAVING 1 = 1
SELECT 'x' AS r FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) HAVING 1 = 2
WITH RECURSIVE r(a) AS (VALUES (1) UNION ALL SELECT a + 1 FROM r WHERE a < 3) SELECT a, b FROM r JOIN (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) USING (a) ORDER BY 1, 2
WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r WHERE a < 3) SELECT count(*) FROM r NATURAL JOIN (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)
WITH RECURSIVE c(n, b) AS (SELECT 0, 1000::numeric UNION ALL SELECT n + 1, b * 1.05 FROM c WHERE n < 3) SELECT b FROM c ORDER BY n
WITH RECURSIVE c AS (SELECT 1 AS x UNION ALL SELECT x + 0.5 FROM c WHERE x < 3) SELECT * FROM c
WITH RECURSIVE c AS (SELECT a AS x FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) UNION ALL SELECT x / 2.0::float8 FROM c WHERE x > 3) SELECT * FROM c
SELECT *, 'z' AS a FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) ORDER BY b, c
SELECT *, -b AS k FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) ORDER BY k, c
SELECT s.k, s.lower FROM (SELECT *, -b AS k, lower(c) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)) s ORDER BY 1, 2
SELECT count(*) FROM (SELECT *, 'z' AS a FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)) s
SELECT * FROM (VALUES ('a', 'b')) v(x)
SELECT v.* FROM (SELECT a, b, c FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)) v(x) ORDER BY 1, 2, 3
WITH x(p) AS (SELECT a, b FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)) SELECT p, b FROM x ORDER BY 1, 2
SELECT * FROM (VALUES ('a', 'b')) v(x, y, z)
SELECT y.a, y.k FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d), LATERAL (SELECT t.a, t.c || 'z' AS k) y ORDER BY 1, 2
SELECT l.v FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) CROSS JOIN LATERAL (SELECT ARRAY[t.c] AS v) l ORDER BY 1
SELECT c FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) ORDER BY b, c LIMIT (SELECT 1)
SELECT c FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) ORDER BY b, c LIMIT (SELECT count(*) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)) - 1 OFFSET (SELECT 1)
SELECT array_agg('x'::text ORDER BY 0) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)
SELECT string_agg(c, ',' ORDER BY 1, c DESC) FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d)
SELECT ARRAY(SELECT 'x'::text ORDER BY 1)
SELECT (1, 1) < (SELECT 1, 2)
SELECT (0, 0) = (SELECT 0, 0)
SELECT c FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) WHERE (a, b) >= (SELECT 1, 20) ORDER BY 1
SELECT c FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) WHERE b = ANY ((SELECT 20) UNION (SELECT 30))
SELECT ((SELECT 'a') UNION (SELECT 'a'))
SELECT (VALUES ('a'))
SELECT c FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) WHERE b = (VALUES (20))
SELECT c FROM (VALUES (1, 10, 'x', 1.25), (1, 20, 'y', 1.31), (2, 10, 'x', 2.50), (NULL, 10, 'y', NULL)) t(a, b, c, d) WHERE b = ANY (VALUES (20), (30))
SELECT count(*) FROM ONLY pg_namespace WHERE nspname = 'pg_catalog'
