"""Keeps the table `editais` of a Postgres in step with the mirror: API_KEY=... python3 feed_to_postgres.py URL DSN"""
import http.client, json, os, sys, time, urllib.error, urllib.request
import psycopg
URL, DSN = sys.argv[1:]
UPSERT = "INSERT INTO editais VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET (notice, analysis) = (excluded.notice, excluded.analysis)"

class NoRedirects(urllib.request.HTTPRedirectHandler): redirect_request = lambda *_: None  # the key goes to no other server
OPENER = urllib.request.build_opener(NoRedirects)

def get(path, *none, read=json.load):  # None for these statuses and errors
    request = urllib.request.Request(URL + path, headers={"X-API-Key": os.environ["API_KEY"]})
    try:
        with OPENER.open(request, timeout=90) as answer: return read(answer)
    except urllib.error.HTTPError as refused:
        error = json.load(refused).get("error")
        if refused.code in none or error in none: return None
        if refused.code != 429: raise OSError(f"{path.split('?')[0]}: {refused.code} {error}")
        time.sleep(float(refused.headers.get("Retry-After", 5)))  # the key's quota
    return get(path, *none, read=read)

def storable(value):  # texts of Postgres have no U+0000: its JSON functions, and jsonb, refuse a document with one
    if isinstance(value, str): return value.replace("\0", "\ufffd")
    if isinstance(value, list): return [storable(one) for one in value]
    if isinstance(value, dict): return {storable(name): storable(one) for name, one in value.items()}
    return value

def store(db, notice, analysis):
    db.execute(UPSERT, [notice["id"], json.dumps(storable(notice)), analysis and json.dumps(storable(analysis))])

def begin(db):  # the cursor first: what changes while everything is read comes again
    cursor = get("/api/v1/mirror/changes?since=latest")["next"]
    db.execute("DELETE FROM editais")
    def store_all(answer):
        lengths = [store(db, *json.loads(line).values()) or len(line) for line in answer]
        if sum(lengths) < int(answer.headers["Content-Length"]): raise OSError("the connection was lost")
    get("/api/v1/mirror/export.ndjson?what=both", read=store_all)
    return cursor

def follow(db, page):
    for id in {event["edital_id"] for event in page["events"]}:
        notice = get(f"/api/v1/editais/{id}", 404)
        if notice: store(db, notice, get(f"/api/v1/editais/{id}/analysis", 404, "analysis_not_available", "analysis_excluded"))
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
