// Both Node clients against one server: prints one JSON object that the test compares.
// Arguments: the server's port.
import { tableFromIPC } from "apache-arrow";
import { Client } from "@lancedb/arrow-flight-sql-client";
import lakehouse from "@lakehouse-rs/flight-sql-client";

const port = Number(process.argv[2]);
const ROWS = "SELECT value AS n, 'text ' || value AS s, value % 2 = 0 AS even FROM generate_series(1, 3) ORDER BY n";
const LARGE = "SELECT value AS n, repeat('x', 1000) AS s FROM generate_series(1, 20000)";
const MODEL = "SELECT count(*) AS n FROM (SELECT ai_gen('Say {value}', value) AS a FROM generate_series(1, 2)) WHERE a IS NOT NULL";

const plain = (rows) => rows.map((row) => ({ n: Number(row.n), s: row.s, even: row.even }));
const failure = async (run) => {
  try {
    await run();
    return null;
  } catch (error) {
    return { message: String(error.message), sqlstate: error.metadata?.get("x-flightllm-sqlstate")?.[0] ?? null };
  }
};

const grpc = await Client.connect({ host: `127.0.0.1:${port}`, username: "u", password: "p", insecure: true });
const objects = async (sql) => (await grpc.query(sql)).collectToObjects();
const rust = await lakehouse.createFlightSqlClient({ username: "u", password: "p", tls: false, host: "127.0.0.1", port, headers: [] });
const table = async (sql) => tableFromIPC(await rust.query(sql));
const names = (buffer, column) => tableFromIPC(buffer).toArray().map((row) => row[column]);

console.log(
  JSON.stringify({
    grpc: {
      rows: plain(await objects(ROWS)),
      large: (await objects(LARGE)).length,
      model: Number((await objects(MODEL))[0].n),
      error: await failure(() => objects("SELECT nope")),
    },
    rust: {
      rows: plain((await table(ROWS)).toArray()),
      large: (await table(LARGE)).numRows,
      model: Number((await table(MODEL)).get(0).n),
      error: await failure(() => table("SELECT nope")),
      catalogs: names(await rust.getCatalogs(), "catalog_name"),
      schemas: names(await rust.getDbSchemas({}), "db_schema_name"),
      tables: names(await rust.getTables({ dbSchemaFilterPattern: "system", includeSchema: true }), "table_name"),
    },
  }),
);
process.exit(0);
