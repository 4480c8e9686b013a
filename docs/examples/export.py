"""Downloads all notices and analyses into FILE, one a line, also if the connection is lost or this program is stopped and
started again: API_KEY=... python3 export.py URL FILE"""
import http.client, os, sys, time, urllib.error, urllib.request
URL, FILE = sys.argv[1:]
PART, TAG = FILE + ".part", FILE + ".etag"  # what was received, and of which version

class NoRedirects(urllib.request.HTTPRedirectHandler):  # the key goes to no other server
    def redirect_request(self, *_): return None

OPENER = urllib.request.build_opener(NoRedirects)

def received():
    return os.path.getsize(PART) if os.path.exists(TAG) and os.path.exists(PART) else 0

def open_rest():
    headers = {"X-API-Key": os.environ["API_KEY"], "Range": f"bytes={received()}-"}
    if received() > 0:
        with open(TAG) as tag: headers["If-Range"] = tag.read()
    return OPENER.open(urllib.request.Request(f"{URL}/api/v1/mirror/export.ndjson?what=both", headers=headers), timeout=90)

def begin(answer):  # first without a tag, so that no bytes are ever taken for another version's
    if os.path.exists(TAG): os.remove(TAG)
    open(PART, "wb").close()
    with open(TAG, "w") as tag: tag.write(answer.headers["ETag"])

def download():
    with open_rest() as answer:
        if answer.status != 206 or received() == 0: begin(answer)  # 200: the version before is gone
        end = received() + int(answer.headers["Content-Length"])
        with open(PART, "ab") as part:
            while piece := answer.read(1 << 16): part.write(piece)
    if received() < end: raise OSError("the connection was lost")

while True:
    try:
        download()
        break
    except urllib.error.HTTPError as refused:
        if refused.code == 416 and refused.headers["Content-Range"] == f"bytes */{received()}":  # all is there, or nothing
            open(PART, "ab").close()
            break
        if refused.code not in (429, 503): sys.exit(f"{refused.code}: {refused.read().decode()}")
        time.sleep(float(refused.headers.get("Retry-After", 5)))
    except (OSError, http.client.HTTPException) as error:
        print(f"{error}; it goes on", file=sys.stderr)
        time.sleep(1)
os.replace(PART, FILE)
if os.path.exists(TAG): os.remove(TAG)
