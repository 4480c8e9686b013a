# Downloads Metabase's DuckDB driver into this directory, and verifies it: against the given checksum, or else against
# the one that GitHub shows for the release. A file that cannot be verified is removed.
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
    refuse "$file $version cannot be verified: GitHub shows no checksum for it. Its SHA-256 is $actual: if that is correct, build again with --build-arg DRIVER_SHA256=$actual."
fi
[ "$actual" = "$expected" ] ||
  refuse "$file $version has the SHA-256 $actual, not $expected (from $source), and was removed. Build again; if it still differs, find out which one is correct before you build with --build-arg DRIVER_SHA256."
