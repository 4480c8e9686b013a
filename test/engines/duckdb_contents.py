"""Prints the rows of each relation of a DuckDB file and a hash of all its values, as JSON.

usage: duckdb_contents.py FILE [STATEMENT…]: runs the statements first.
"""

import json
import sys

import duckdb

connection = duckdb.connect(sys.argv[1], read_only=True)
connection.execute("SET TimeZone = 'UTC'")
for statement in sys.argv[2:]:
    connection.execute(statement)
relations = connection.execute(
    """SELECT view_name FROM duckdb_views() WHERE NOT internal
    UNION ALL SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY 1"""
).fetchall()
contents = {}
for (name,) in relations:
    columns = [column for column, *_ in connection.execute(f'DESCRIBE "{name}"').fetchall()]
    # Nested values are written differently by each version; all columns here are plain.
    row = "concat_ws('|', " + ", ".join(f"coalesce(\"{column}\"::VARCHAR, '~')" for column in columns) + ")"
    rows, values = connection.execute(
        f'SELECT count(*), coalesce(md5(string_agg({row}, chr(10) ORDER BY {row})), \'\') FROM "{name}"'
    ).fetchone()
    contents[name] = {"rows": rows, "values": values}
print(json.dumps({"version": duckdb.__version__, "contents": contents}))
