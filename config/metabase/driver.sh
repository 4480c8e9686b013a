# Downloads the DuckDB driver for Metabase into this directory, and checks it: by the checksum given, else by the one
# that GitHub shows of the release. What cannot be checked is not kept.
# usage: driver.sh VERSION [SHA256]
set -eu
version=$1
expected=${2:-} source=DRIVER_SHA256
repository=motherduckdb/metabase_duckdb_driver
file=duckdb.metabase-driver.jar

curl -fsSLo "$file" "https://github.com/$repository/releases/download/$version/$file"
actual=$(sha256sum "$file" | cut -d ' ' -f 1)

refuse() {
  rm -f "$file"
  echo "$1" >&2
  exit 1
}

if [ -z "$expected" ]; then
  digest=$(curl -fsSL "https://api.github.com/repos/$repository/releases/tags/$version" |
    jq -r --arg name "$file" '.assets[] | select(.name == $name) | .digest // empty') || digest=
  expected=${digest#sha256:} source=GitHub
  [ -n "$expected" ] ||
    refuse "$file $version cannot be checked: GitHub shows no checksum of it. Its SHA-256 is $actual: if it is the right one, set DRIVER_SHA256 to it in .env, and build again."
fi
[ "$actual" = "$expected" ] ||
  refuse "$file $version has the SHA-256 $actual, not $expected as $source says, and was not used. Build again; if it stays so, find out which is right before you set DRIVER_SHA256."
