# Starts Metabase; the image's CMD.
set -eu

# Of its own database, which is not in a variable that `docker inspect` would show.
if [ -n "${MB_DB_PASS_FILE:-}" ]; then
  MB_DB_PASS=$(cat "$MB_DB_PASS_FILE")
  export MB_DB_PASS
fi

# Metabase unpacks its own drivers there at each start, where ours must be too: in /tmp, for nothing else can be
# written (docker-compose.yml).
mkdir -p "$MB_PLUGINS_DIR"
ln -sf /home/metabase/drivers/*.jar "$MB_PLUGINS_DIR"

# DuckDB works beside the heap: leave it room.
exec java -XX:MaxRAMPercentage=40 -jar metabase.jar
