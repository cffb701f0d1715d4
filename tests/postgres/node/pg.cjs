// What the packages pg, pg-cursor and pg-copy-streams see: one line of JSON.
const { Client } = require('pg');
const Cursor = require('pg-cursor');
const { from: copyFrom, to: copyTo } = require('pg-copy-streams');
const { pipeline } = require('node:stream/promises');
const { Readable } = require('node:stream');

const port = Number(process.argv[2]);
const options = { host: '127.0.0.1', port, user: 'me', database: 'flightllm' };

async function failure(work) {
  try {
    await work;
  } catch (error) {
    return { code: error.code, position: error.position ?? null };
  }
  return null;
}

async function cancelled(client) {
  const other = new Client(options);
  await other.connect();
  const slow = failure(client.query("SELECT ai_classify(b, ['x', 'y']) FROM t"));
  let done = false;
  for (let tries = 0; !done && tries < 300; tries += 1) { // until the statement has begun
    await new Promise((resolve) => setTimeout(resolve, 100));
    ({ done } = (await other.query('SELECT pg_cancel_backend($1::int) AS done', [client.own])).rows[0]);
  }
  await other.end();
  return { ...(await slow), done };
}

async function main() {
  const client = new Client(options);
  await client.connect();
  const rows = async (...query) => (await client.query(...query)).rows;
  const seen = {};
  client.own = (await rows('SELECT pg_backend_pid() AS pid'))[0].pid;
  seen.simple = await rows("SELECT a, b FROM t WHERE a < 3 ORDER BY a");
  seen.several = (await client.query('SELECT 1 AS a; SELECT 2 AS b')).map((one) => one.rows);
  seen.bound = await rows('SELECT a FROM t WHERE a = $1 OR b = $2 ORDER BY a', [1, 'text 2']);
  seen.named = [];
  for (const value of [3, 4]) {
    seen.named.push(...(await rows({ name: 'one', text: 'SELECT a FROM t WHERE a = $1', values: [value] })));
  }
  const types = await client.query(
    `SELECT 1::smallint AS a, 2::bigint AS b, 1.5::numeric(10, 2) AS c, 1.5::float8 AS d, DATE '2024-01-02' AS e,
     TIMESTAMP '2024-01-02 03:04:05.678' AS f, TIMESTAMPTZ '2024-01-02 03:04:05+00' AS g, true AS h,
     decode('ff00', 'hex') AS i, ARRAY[1, 2, NULL] AS j, INTERVAL '1 day' AS k, NULL::text AS l`,
  );
  seen.oids = types.fields.map((field) => field.dataTypeID);
  seen.types = { ...types.rows[0], i: types.rows[0].i.toString('hex') };
  seen.error = await failure(client.query('SELECT nope FROM t'));
  seen.syntax = await failure(client.query('SELEC 1'));
  seen.again = await rows('SELECT 1::int AS a');
  const cursor = client.query(new Cursor('SELECT a FROM t ORDER BY a'));
  seen.cursor = [];
  for (let part = await cursor.read(4000); part.length; part = await cursor.read(4000)) seen.cursor.push(part.length);
  await cursor.close();
  await client.query('CREATE OR REPLACE TABLE from_node (a int, b text)');
  await pipeline(Readable.from(['1\tx\n', '2\t\\N\n']), client.query(copyFrom('COPY from_node FROM STDIN')));
  seen.copied = await rows('SELECT a, b FROM from_node ORDER BY a');
  seen.copy = '';
  for await (const part of client.query(copyTo('COPY (SELECT a, b FROM from_node ORDER BY a) TO STDOUT'))) seen.copy += part;
  seen.cancelled = await cancelled(client);
  await client.end();
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
