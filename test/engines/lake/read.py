"""Reads every table of a lake in an object store with one engine, and compares every value with the local lake's files.

usage: read.py ENGINE, with a JSON object as standard input:
    endpoint, key_id, secret, bucket, prefix   where the lake is; prefix up to the tables
    catalog                                    {uri, warehouse, namespace, history}, or null
    trino                                      its port, if it runs
    spark                                      {version, files: where it wrote what it read}, if it ran
    versions                                   {iceberg, catalog or delta: {snapshot: {table: version}}}
    snapshots                                  {snapshot: {table: [local Parquet files]}}
    times                                      {snapshot: milliseconds since 1970}
Prints {"version": ..., "compared": number of tables, "differences": [sentences]} as JSON.
"""

import importlib
import json
import sys
import time
from pathlib import Path

import duckdb

GIVEN = json.load(sys.stdin)
ENDPOINT, BUCKET, PREFIX = GIVEN["endpoint"], GIVEN["bucket"], GIVEN["prefix"]
KEY_ID, SECRET = GIVEN["key_id"], GIVEN["secret"]
REGION = "us-east-1"
CATALOG = GIVEN["catalog"]


def place(table):
    return f"s3://{BUCKET}/{PREFIX}/{table}"


def metadata_file(table, version):
    return f"{place(table)}/metadata/v{version}.metadata.json"


class Pyiceberg:
    """By the tag of the snapshot."""

    def __init__(self):
        import pyiceberg

        self.version = f"pyiceberg {pyiceberg.__version__}"

    def read(self, table, snapshot):
        from pyiceberg.table import StaticTable

        newest = max(versions[table] for versions in GIVEN["versions"]["iceberg"].values() if table in versions)
        options = {"s3.endpoint": ENDPOINT, "s3.access-key-id": KEY_ID, "s3.secret-access-key": SECRET, "s3.region": REGION}
        found = StaticTable.from_metadata(metadata_file(table, newest), options)
        tagged = found.metadata.refs[f"s-{snapshot}"].snapshot_id
        at = next(one for one in found.metadata.snapshots if one.snapshot_id == tagged).timestamp_ms
        if at not in GIVEN["times"].values():
            raise ValueError(f"its time is {at}, which no snapshot has")
        return found.scan(snapshot_id=tagged).to_arrow()


class DuckDbIceberg:
    """By the version of the metadata."""

    def __init__(self):
        self.version = f"DuckDB {duckdb.__version__} (iceberg)"
        self.connection = extended("httpfs", "avro", "iceberg")

    def read(self, table, snapshot):
        version = GIVEN["versions"]["iceberg"][snapshot][table]
        return self.connection.execute(f"FROM iceberg_scan('{metadata_file(table, version)}')").to_arrow_table()


class PyicebergCatalog:
    """By the tag of the snapshot, if the catalog keeps tags."""

    def __init__(self):
        import pyiceberg
        from pyiceberg.catalog import load_catalog

        self.version = f"pyiceberg {pyiceberg.__version__}"
        options = {"s3.endpoint": ENDPOINT, "s3.access-key-id": KEY_ID, "s3.secret-access-key": SECRET, "s3.region": REGION}
        where = {"type": "rest", "uri": CATALOG["uri"], "warehouse": CATALOG["warehouse"]}
        self.catalog = load_catalog("lake", **where, **options)

    def read(self, table, snapshot):
        found = self.catalog.load_table(f"{CATALOG['namespace']}.{table}")
        if not CATALOG["history"]:
            return found.scan().to_arrow()
        return found.scan(snapshot_id=found.metadata.refs[f"s-{snapshot}"].snapshot_id).to_arrow()


class DuckDbCatalog:
    """By the id of the snapshot, if the catalog keeps earlier ones."""

    def __init__(self):
        self.version = f"DuckDB {duckdb.__version__} (iceberg)"
        self.connection = extended("httpfs", "avro", "iceberg")
        self.connection.execute(
            f"""ATTACH '{CATALOG["warehouse"]}' AS lake
                (TYPE iceberg, ENDPOINT '{CATALOG["uri"]}', AUTHORIZATION_TYPE 'none')"""
        )

    def read(self, table, snapshot):
        version = GIVEN["versions"]["catalog"][snapshot][table]
        at = f"AT (VERSION => {version})" if CATALOG["history"] else ""
        return self.connection.execute(f"FROM lake.{CATALOG['namespace']}.{table} {at}").to_arrow_table()


class DuckDbDelta:
    def __init__(self):
        self.version = f"DuckDB {duckdb.__version__} (delta)"
        self.connection = extended("httpfs", "delta")

    def read(self, table, snapshot):
        version = GIVEN["versions"]["delta"][snapshot][table]
        self.connection.execute(f"ATTACH '{place(table)}' AS delta_table (TYPE delta, VERSION {version})")
        try:
            return self.connection.execute("FROM delta_table").to_arrow_table()
        finally:
            self.connection.execute("DETACH delta_table")


class Deltalake:
    def __init__(self):
        import deltalake

        self.version = f"deltalake {deltalake.__version__}"

    def read(self, table, snapshot):
        from deltalake import DeltaTable

        version = GIVEN["versions"]["delta"][snapshot][table]
        found = DeltaTable(place(table), version=version, storage_options=storage_options())
        return found.to_pyarrow_table()


class Polars:
    def __init__(self):
        import polars

        self.version = f"polars {polars.__version__}"

    def read(self, table, snapshot):
        import polars

        version = GIVEN["versions"]["delta"][snapshot][table]
        return polars.read_delta(place(table), version=version, storage_options=storage_options()).to_arrow()


class ClickHouseIceberg:
    """By the id of the snapshot."""

    def __init__(self):
        import chdb

        self.version = f"ClickHouse {chdb.engine_version} (iceberg)"

    def read(self, table, snapshot):
        at = GIVEN["times"][snapshot]
        url = f"{ENDPOINT}/{BUCKET}/{PREFIX}/{table}/"
        return clickhouse(f"SELECT * FROM icebergS3('{url}', '{KEY_ID}', '{SECRET}') SETTINGS iceberg_timestamp_ms = {at}")


class ClickHouseDelta:
    def __init__(self):
        import chdb

        self.version = f"ClickHouse {chdb.engine_version} (delta)"

    def read(self, table, snapshot):
        version = GIVEN["versions"]["delta"][snapshot][table]
        url = f"{ENDPOINT}/{BUCKET}/{PREFIX}/{table}/"
        settings = f"delta_lake_snapshot_version = {version}, allow_experimental_delta_kernel_rs = 1"
        return clickhouse(f"SELECT * FROM deltaLake('{url}', '{KEY_ID}', '{SECRET}') SETTINGS {settings}")


class Trino:
    """Rows as Python values, converted to the types of the local files."""

    def __init__(self, name):
        import trino

        self.cursor = trino.dbapi.connect(host="127.0.0.1", port=GIVEN["trino"], user="test", timezone="UTC").cursor()
        self.version = f"Trino {self.rows('SELECT version()')[0][0]} ({name})"

    def rows(self, sql):
        """On a busy machine, Trino loses sight of itself for a moment."""
        from trino.exceptions import TrinoQueryError

        for left in range(30, -1, -1):
            try:
                self.cursor.execute(sql)
                return self.cursor.fetchall()
            except TrinoQueryError as error:
                if error.error_name != "NO_NODES_AVAILABLE" or left == 0:
                    raise
                time.sleep(1)

    def table(self, sql, like):
        import pyarrow
        from pyarrow import parquet

        rows = self.rows(sql)
        names = [column[0] for column in self.cursor.description]
        schema = parquet.read_schema(like)
        columns = zip(*rows) if rows else [[] for _ in names]
        return pyarrow.table(
            {name: pyarrow.array(values, schema.field(name).type) for name, values in zip(names, columns)}
        )


class TrinoIceberg(Trino):
    """By the tag of the snapshot."""

    def __init__(self):
        super().__init__("iceberg")

    def read(self, table, snapshot):
        sql = f"SELECT * FROM ice.{CATALOG['namespace']}.{table} FOR VERSION AS OF 's-{snapshot}'"
        return self.table(sql, GIVEN["snapshots"][snapshot][table][0])


class TrinoDelta(Trino):
    """Its connector rounds points in time to milliseconds."""

    milliseconds = True

    def __init__(self):
        super().__init__("delta")
        self.rows("CREATE SCHEMA delta.acme WITH (location = 'local:///metastore/acme')")
        for table in {name for tables in GIVEN["snapshots"].values() for name in tables}:
            self.rows(f"CALL delta.system.register_table('acme', '{table}', '{place(table)}')")

    def read(self, table, snapshot):
        version = GIVEN["versions"]["delta"][snapshot][table]
        sql = f"SELECT * FROM delta.acme.{table} FOR VERSION AS OF {version}"
        return self.table(sql, GIVEN["snapshots"][snapshot][table][0])


class Spark:
    """By the tag of the snapshot; read before, by its own program."""

    def __init__(self):
        self.version = f"{GIVEN['spark']['version']} (iceberg)"

    def read(self, table, snapshot):
        files = f"{GIVEN['spark']['files']}/s-{snapshot}/{table}/*.parquet"
        return LOCAL.execute(f"FROM read_parquet('{files}', hive_partitioning = false)").to_arrow_table()


def clickhouse(sql):
    import chdb

    return chdb.query(f"{sql}, session_timezone = 'UTC', output_format_arrow_string_as_string = 1", "ArrowTable")


def extended(*names):
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in names:
        connection.execute(f"LOAD '{extension(name)}'")
    connection.execute(
        f"""CREATE SECRET (TYPE s3, KEY_ID '{KEY_ID}', SECRET '{SECRET}', REGION '{REGION}',
            ENDPOINT '{ENDPOINT.split("//")[1]}', URL_STYLE 'path', USE_SSL false)"""
    )
    return connection


def extension(name):
    """The signed file of the PyPI package."""
    [package] = importlib.import_module(f"duckdb_extension_{name}").__path__
    [file] = Path(package).rglob(f"{name}.duckdb_extension")
    return file


def storage_options():
    return {
        "AWS_ENDPOINT_URL": ENDPOINT,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_ALLOW_HTTP": "true",
    }


def difference(rows, files, engine):
    """None if the same rows are in both."""
    paths = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
    LOCAL.execute(f"CREATE OR REPLACE TEMP TABLE expected AS FROM read_parquet([{paths}], hive_partitioning = false)")
    columns = LOCAL.execute(
        "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'expected' ORDER BY column_index"
    ).fetchall()
    if list(rows.column_names) != [name for name, _ in columns]:
        return f"its columns are {', '.join(rows.column_names)}"
    if getattr(engine, "milliseconds", False):
        rounded = ", ".join(
            f'make_timestamptz((round(epoch_us("{name}") / 1000) * 1000)::BIGINT) AS "{name}"'
            for name, type in columns
            if type == "TIMESTAMP WITH TIME ZONE"
        )
        if rounded:
            LOCAL.execute(f"CREATE OR REPLACE TEMP TABLE expected AS SELECT * REPLACE ({rounded}) FROM expected")
    LOCAL.register("rows_read", rows)
    # ClickHouse has no type for each of DuckDB's.
    cast = ", ".join(f'"{name}"::{type} AS "{name}"' for name, type in columns)
    LOCAL.execute(f"CREATE OR REPLACE TEMP TABLE found AS SELECT {cast} FROM rows_read")
    [differences] = LOCAL.execute(
        "SELECT count(*) FROM ((FROM expected EXCEPT ALL FROM found) UNION ALL (FROM found EXCEPT ALL FROM expected))"
    ).fetchone()
    return f"{differences} rows differ" if differences else None


def reason(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


ENGINES = {
    "pyiceberg": Pyiceberg,
    "pyiceberg-catalog": PyicebergCatalog,
    "duckdb-catalog": DuckDbCatalog,
    "duckdb-iceberg": DuckDbIceberg,
    "duckdb-delta": DuckDbDelta,
    "deltalake": Deltalake,
    "polars": Polars,
    "clickhouse-iceberg": ClickHouseIceberg,
    "clickhouse-delta": ClickHouseDelta,
    "trino-iceberg": TrinoIceberg,
    "trino-delta": TrinoDelta,
    "spark": Spark,
}
LOCAL = duckdb.connect()
LOCAL.execute("SET TimeZone = 'UTC'")
engine = ENGINES[sys.argv[1]]()
compared, differences = 0, []
for snapshot, tables in GIVEN["snapshots"].items():
    for table, files in tables.items():
        try:
            found = difference(engine.read(table, snapshot), files, engine)
        except Exception as error:
            found = reason(error)
        compared += 1
        if found:
            differences.append(f"{table} of {snapshot}: {found}")
print(json.dumps({"version": engine.version, "compared": compared, "differences": differences}))
