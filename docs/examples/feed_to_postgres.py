"""Keeps the table `editais` of a Postgres in step with the mirror: API_KEY=... python3 feed_to_postgres.py URL DSN"""
import http.client, json, os, sys, time, urllib.error, urllib.request
import psycopg
URL, DSN = sys.argv[1:]
UPSERT = "INSERT INTO editais VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET (notice, analysis) = (excluded.notice, excluded.analysis)"

class NoRedirects(urllib.request.HTTPRedirectHandler):  # the key goes to no other server
    def redirect_request(self, *_): return None

OPENER = urllib.request.build_opener(NoRedirects)

def get(path, *none):  # None for these statuses and errors
    request = urllib.request.Request(URL + path, headers={"X-API-Key": os.environ["API_KEY"]})
    while True:
        try:
            with OPENER.open(request, timeout=90) as answer: return json.load(answer)
        except urllib.error.HTTPError as refused:
            if refused.code != 429:
                error = json.load(refused).get("error")
                if refused.code in none or error in none: return None
                raise OSError(f"{path.split('?')[0]}: {refused.code} {error}")
            time.sleep(float(refused.headers.get("Retry-After", 5)))  # the key may send so many requests a second

def store(db, id, notice):
    analysis = get(f"/api/v1/editais/{id}/analysis", 404, "analysis_not_available", "analysis_excluded")
    db.execute(UPSERT, [id, json.dumps(notice), analysis and json.dumps(analysis)])

def begin(db):  # the cursor first: what changes while everything is read comes again
    cursor, snapshot = get("/api/v1/mirror/changes?since=latest")["next"], get("/api/v1/mirror")["snapshot"]
    db.execute("DELETE FROM editais")
    for offset in range(0, get("/api/v1/editais?limit=1")["total"], 200):
        for notice in get(f"/api/v1/editais?limit=200&offset={offset}")["editais"]: store(db, notice["id"], notice)
    if get("/api/v1/mirror")["snapshot"] != snapshot: raise OSError("a new snapshot was published in between")
    return cursor

def follow(db, page):
    for id in {event["edital_id"] for event in page["events"]}:
        if notice := get(f"/api/v1/editais/{id}", 404): store(db, id, notice)
        else: db.execute("DELETE FROM editais WHERE id = %s", [id])
    return page["next"]

with psycopg.connect(DSN, autocommit=True) as db:
    db.execute("CREATE TABLE IF NOT EXISTS editais (id text PRIMARY KEY, notice json NOT NULL, analysis json)")
    db.execute("CREATE TABLE IF NOT EXISTS feed AS SELECT NULL::text AS cursor")
    while True:
        try:
            [cursor] = db.execute("SELECT cursor FROM feed").fetchone()
            page = cursor and get(f"/api/v1/mirror/changes?wait=30&since={cursor}", 410)
            with db.transaction():  # rows and cursor, both or neither
                db.execute("UPDATE feed SET cursor = %s", [follow(db, page) if page else begin(db)])
        except (OSError, ValueError, http.client.HTTPException) as error:  # it tries again; if Postgres is gone, it ends
            print(error, file=sys.stderr)
            time.sleep(2)
