# Starts Metabase; the image's CMD.
set -eu

# The password of Metabase's own database comes from a file: `docker inspect` shows variables.
if [ -n "${MB_DB_PASS_FILE:-}" ]; then
  MB_DB_PASS=$(cat "$MB_DB_PASS_FILE")
  export MB_DB_PASS
fi

# Our driver must be in the directory into which Metabase unpacks its own drivers at each start. It is in /tmp, because
# the rest of the file system is read-only (docker-compose.yml).
# Another jar there would be loaded, so what an earlier process left is removed.
rm -rf "${MB_PLUGINS_DIR:?}"
mkdir -p "$MB_PLUGINS_DIR"
ln -sf /home/metabase/drivers/*.jar "$MB_PLUGINS_DIR"

# A Metabase that was killed leaves them behind.
rm -rf "${SPILL_DIRECTORY:?}"/*

# DuckDB's memory is outside the heap: leave room for it.
exec java -XX:MaxRAMPercentage=40 -jar metabase.jar
