"""A worker that can be hurt, for the tests beside it:  BOWLINE_URL=... BOWLINE_TOKEN=... python3 worker.py w1

`call` sends its effect to params.url, under the key that all attempts at the job share, and waits for the answer.
`poison` takes the whole process down, as a handler in native code can. Both are begun only when the server has noted it.
"""
import http.client, json, os, sys, threading, time, urllib.error, urllib.request

URL, NAME = os.environ["BOWLINE_URL"], sys.argv[1]
HEADERS = {"Authorization": "Bearer " + os.environ["BOWLINE_TOKEN"], "Content-Type": "application/json"}
in_hand = set()

def post(url, body, headers):
    request = urllib.request.Request(url, body and json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()

def ask(path, body=None):
    """The same words until the server answers them; it may be away. A refusal is an answer, too."""
    while True:
        try:
            return json.loads(post(URL + path, body, HEADERS))
        except urllib.error.HTTPError as refusal:
            if refusal.code < 500:
                print(path, refusal.code, file=sys.stderr)
                return {}
        except (OSError, http.client.HTTPException, ValueError):
            pass
        time.sleep(0.1)

def beat(seconds):
    while True:
        time.sleep(seconds)
        ask(f"/workers/{NAME}/heartbeat", {"runs": list(in_hand)})

def call(task):
    effect = {"job": task["job_id"], "fence": task["fence"], "worker": NAME}
    post(task["params"]["url"], effect, {"Idempotency-Key": task["idempotency_key"]})
    return {"by": NAME}

TASKS = {"call": call, "poison": lambda task: os.abort()}
times = ask("/workers/register", {"worker_id": NAME, "task_types": list(TASKS), "slots": 1})
threading.Thread(target=beat, args=[times["heartbeat_ms"] / 1000], daemon=True).start()
while True:
    for task in ask(f"/workers/{NAME}/tasks?wait=5000"):
        run = task["task_id"]
        if run in ask(f"/workers/{NAME}/heartbeat", {"runs": [run]}).get("renewed", []):
            in_hand.add(run)
            result = TASKS[task["task_type"]](task)
            ask("/tasks/result", {"task_id": run, "fence": task["fence"], "status": "success", "result": result})
            in_hand.discard(run)
