"""Reads four tables of a lake together, again and again while snapshots are published, until a file appears.

usage: loop.py, with a JSON object as standard input:
    endpoint, key_id, secret, bucket, prefix   where the lake is; prefix up to the tables
    local                                      the directory of the local lake's snapshots
    stop                                       the file that ends the loop
Each read is compared with the local snapshot of the same name.
Prints {"reads": ..., "snapshots": how many were seen, "differences": [sentences]} as JSON.
"""

import json
import sys
from pathlib import Path

import boto3
import duckdb
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

GIVEN = json.load(sys.stdin)
ENDPOINT, BUCKET, PREFIX = GIVEN["endpoint"], GIVEN["bucket"], GIVEN["prefix"]
KEY_ID, SECRET, REGION = GIVEN["key_id"], GIVEN["secret"], "us-east-1"
TABLES = ["editais", "requirements", "items", "alerts"]
# One row for each notice, from all four tables.
JOINED = """
    SELECT count(*) AS notices, md5(string_agg(line, chr(10) ORDER BY line)) AS lines FROM (
        SELECT concat_ws('|', e.edital_id, e.objeto, e.status, e.updated_at, r.rows, i.rows, i.total, a.rows) AS line
        FROM editais e
        LEFT JOIN (SELECT edital_id, count(*) AS rows FROM requirements GROUP BY ALL) r USING (edital_id)
        LEFT JOIN (SELECT edital_id, count(*) AS rows, sum(hash(descricao, valor_total)) AS total FROM items GROUP BY ALL) i USING (edital_id)
        LEFT JOIN (SELECT edital_id, count(*) AS rows FROM alerts GROUP BY ALL) a USING (edital_id))"""

S3 = boto3.client(
    "s3", endpoint_url=ENDPOINT, region_name=REGION, aws_access_key_id=KEY_ID, aws_secret_access_key=SECRET
)
DB = duckdb.connect()
DB.execute("SET TimeZone = 'UTC'")


def joined(read):
    for table in TABLES:
        DB.register(table, read(table))
    try:
        return DB.execute(JOINED).fetchone()
    finally:
        for table in TABLES:
            DB.unregister(table)


def iceberg(latest):
    """At the time of the snapshot, which is that of its tag."""
    import datetime

    at = datetime.datetime.fromisoformat(latest["published_at"].replace("Z", "+00:00"))
    options = {"s3.endpoint": ENDPOINT, "s3.access-key-id": KEY_ID, "s3.secret-access-key": SECRET, "s3.region": REGION}

    def read(table):
        place = f"s3://{BUCKET}/{PREFIX}/{table}/metadata/v{latest['iceberg'][table]}.metadata.json"
        found = StaticTable.from_metadata(place, options)
        tagged = found.metadata.refs[f"s-{latest['snapshot']}"].snapshot_id
        timed = found.snapshot_as_of_timestamp(round(at.timestamp() * 1000)).snapshot_id
        if tagged != timed:
            raise ValueError(f"{table}: the tag and the time name different snapshots")
        return found.scan(snapshot_id=timed).to_arrow()

    return joined(read)


def delta(latest):
    options = {
        "AWS_ENDPOINT_URL": ENDPOINT,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_ALLOW_HTTP": "true",
    }

    def read(table):
        place = f"s3://{BUCKET}/{PREFIX}/{table}"
        return DeltaTable(place, version=latest["delta"][table], storage_options=options).to_pyarrow_table()

    return joined(read)


def local(snapshot):
    return joined(lambda table: DB.read_parquet(f"{GIVEN['local']}/{snapshot}/{table}/*.parquet", hive_partitioning=False))


reads, snapshots, differences = 0, set(), []
while not Path(GIVEN["stop"]).exists():
    body = S3.get_object(Bucket=BUCKET, Key=f"{PREFIX}/latest.json")["Body"].read()
    latest = json.loads(body)
    if latest["snapshot"] is None:
        continue
    for name, read in (("Iceberg", iceberg), ("Delta", delta)):
        try:
            found = read(latest)
            if found != local(latest["snapshot"]):
                differences.append(f"{name}, {latest['snapshot']}: a torn or wrong result")
        except Exception as error:
            differences.append(f"{name}, {latest['snapshot']}: {type(error).__name__}: {error}")
        reads += 1
    snapshots.add(latest["snapshot"])
print(json.dumps({"reads": reads, "snapshots": len(snapshots), "differences": differences}))
