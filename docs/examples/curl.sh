#!/bin/sh
# The API with curl 7.76 or later, a function for each task: API_KEY=... sh curl.sh URL TASK [ARGUMENT...]
#   check            what the key may do, and how current the data is
#   search FILTER... notices that match, a page a line, such as: search uf=SP,RJ 'q=merenda escolar' sort=session
#   changes FILE     what changed since the cursor in FILE, and the next cursor into FILE; at first, only that
#   export FILE      all notices and analyses, one a line, into FILE; goes on with a download that was interrupted
#   notices FILE     the latest 200 notices into FILE, and 200, or 304 if FILE is up to date
set -eu
url=$1 task=$2
shift 2
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# The key is no argument of curl, because other users of the machine could read it there.
with_key() { printf 'header = "X-API-Key: %s"\n' "$API_KEY" | curl --silent --show-error --retry 5 --config - "$@"; }

# The answer into $answer; if it is an error, its text is shown, and the script ends.
get() { with_key --fail-with-body --output "$answer" "$@" || { line >&2; exit 1; }; }

# The cursor at the end of a page; nothing on the last page of a search.
next() { sed -n 's/.*"next":"\([^"]*\)","[a-z_]*":[^,]*}$/\1/p' "$answer"; }

line() { cat "$answer" && echo; }

check() { get "$url/api/v1/mirror" && line; }

search() {
  for filter; do shift && set -- "$@" --data-urlencode "$filter"; done
  get --get "$url/api/v1/mirror/editais" "$@" && line
  while cursor=$(next) && [ -n "$cursor" ]; do
    get --get "$url/api/v1/mirror/editais" "$@" --data-urlencode "cursor=$cursor" && line
  done
}

changes() {
  since=$(cat "$1" 2>/dev/null || echo latest)
  get --get "$url/api/v1/mirror/changes" --data-urlencode "since=$since" && line
  # Not before its events were used: here, shown.
  next >"$1.new" && mv "$1.new" "$1"
  if grep -q '"has_more":true}$' "$answer"; then changes "$1"; fi
}

# A header of the first answer, in FILE.head.
header() { grep -i "^$1: " "$head" | cut -d ' ' -f 2; }

export_to() {
  all="$url/api/v1/mirror/export.ndjson?what=both" part=$1.part head=$1.head
  if ! [ -s "$head" ]; then
    get --head "$all"
    : >"$part"
    tr -d '\r' <"$answer" >"$head"
  fi
  until [ $(($(wc -c <"$part"))) = "$(header content-length)" ] ||
    with_key --fail --continue-at - --header "If-Range: $(header etag)" --output "$part" "$all"; do
    case $? in
      18 | 56) sleep 1 ;; # the connection was lost
      33) rm -f "$head" && export_to "$1" && return ;; # the rest is of another snapshot: from the beginning
      *) exit 1 ;;
    esac
  done
  mv "$part" "$1" && rm -f "$head"
}

notices() {
  with_key --fail --etag-compare "$1.etag" --etag-save "$1.etag" --output "$1" --write-out '%{http_code}\n' \
    "$url/api/v1/editais?limit=200"
}

case $task in
  check | search | changes | notices) "$task" "$@" ;;
  export) export_to "$@" ;;
  *) sed -n '2,7s/^# //p' "$0" >&2 && exit 2 ;;
esac
