"""Prints the notices that match, each as a line of JSON: API_KEY=... python3 search.py URL uf=SP,RJ 'q=merenda escolar'"""
import json, os, sys, time, urllib.error, urllib.parse, urllib.request
URL, *FILTERS = sys.argv[1:]

class NoRedirects(urllib.request.HTTPRedirectHandler):  # the key goes to no other server
    def redirect_request(self, *_): return None

OPENER = urllib.request.build_opener(NoRedirects)

def get(parameters):  # None if the snapshot of the cursor is gone
    address = f"{URL}/api/v1/mirror/editais?{urllib.parse.urlencode(parameters)}"
    request = urllib.request.Request(address, headers={"X-API-Key": os.environ["API_KEY"]})
    while True:
        try:
            with OPENER.open(request, timeout=90) as answer: return json.load(answer)
        except urllib.error.HTTPError as refused:
            if refused.code == 410: return None
            if refused.code not in (429, 503): sys.exit(f"{refused.code}: {refused.read().decode()}")
            time.sleep(float(refused.headers.get("Retry-After", 5)))

def search(filters):  # all pages are of one snapshot; if that is gone, from the beginning
    found, cursor = [], {}
    while page := get({**filters, **cursor}):
        found += page["editais"]
        if page["next"] is None: return found
        cursor = {"cursor": page["next"]}
    return search(filters)

for notice in search(dict(parameter.split("=", 1) for parameter in FILTERS)):
    print(json.dumps(notice, ensure_ascii=False))
