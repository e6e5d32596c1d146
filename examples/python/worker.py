"""A Bowline worker in nothing but the standard library:  BOWLINE_TOKEN=... python3 worker.py w1"""
import http.client, json, os, random, signal, sys, threading, time, urllib.error, urllib.parse, urllib.request

URL = os.environ.get("BOWLINE_URL", "http://127.0.0.1:7420").rstrip("/")
NAME = sys.argv[1] if len(sys.argv) > 1 else sys.exit("usage: worker.py WORKER_ID")
ME = "/workers/" + urllib.parse.quote(NAME, safe="")
TOKEN = os.environ.get("BOWLINE_TOKEN") or sys.exit("set BOWLINE_TOKEN to this worker's token")
HEADERS = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}
TASKS = {"demo.upper": lambda params: {"text": params["text"].upper()},   # what this worker can do: a type
         "demo.sum": lambda params: {"sum": sum(params["numbers"])}}       # of task, and what becomes of its params

in_hand, started = set(), set()    # what heartbeats name; and what was ever started, because nothing starts twice
at_work = threading.Lock()         # held while there is a task to finish
leaving = threading.Event()        # set by SIGTERM, or by a server that drains us

def call(method, path, body=None):
    """One request, sent again until the server answers it. A refusal (4xx) is an answer too, and is raised."""
    data, pause = body and json.dumps(body).encode(), 0.25
    while True:
        try:
            request = urllib.request.Request(URL + path, data, HEADERS, method=method)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code == 404 and path.startswith(ME):    # the server forgot us: introduce ourselves again
                register()
            elif refusal.code < 500 and refusal.code not in (408, 429):    # those mean "later"
                raise
            wait = refusal.headers.get("Retry-After", "")
        except (OSError, http.client.HTTPException, ValueError):    # the server is away, or its answer was cut off
            wait = ""
        time.sleep((int(wait) if wait.isdigit() else 0) + random.uniform(0, pause))    # full jitter
        pause = min(pause * 2, 10)

def register():
    return call("POST", "/workers/register", {"worker_id": NAME, "task_types": list(TASKS), "slots": 1})

def keep_leases(seconds):
    while not time.sleep(seconds):    # a worker with longer tasks would also look at `cancel` and `stale`
        if call("POST", ME + "/heartbeat", {"runs": list(in_hand)})["drain"]:
            leaving.set()

def execute(task):
    run, report = task["task_id"], {key: task[key] for key in ("task_id", "job_id", "fence")}
    # Accept before starting: if the hand-out took too long to arrive, somebody else has the task by now.
    if run in started or run not in call("POST", ME + "/heartbeat", {"runs": [run]})["renewed"]:
        return
    started.add(run), in_hand.add(run)
    try:
        report |= {"status": "success", "result": TASKS[task["task_type"]](task["params"])}
    except Exception as error:    # these tasks depend on nothing but their params: trying again would not help
        report |= {"status": "failure", "error": {"class": "permanent", "message": repr(error)}}
    try:
        call("POST", "/tasks/result", report)    # the same words until they are heard; twice does no harm
        print(f"task {run}: {report['status']}", file=sys.stderr)
    except urllib.error.HTTPError as refusal:    # 409 if we were given up meanwhile: the server has noted it
        print(f"task {run}: {refusal}", file=sys.stderr)
    in_hand.discard(run)

def work():
    threading.Thread(target=keep_leases, args=[register()["heartbeat_ms"] / 1000], daemon=True).start()
    print(f"{NAME} waits for {', '.join(TASKS)} at {URL}", file=sys.stderr)
    while True:
        for task in call("GET", ME + "/tasks?max=1&wait=20000"):    # waits at the server, up to 20 seconds
            with at_work:
                execute(task)

threading.excepthook = lambda crash: (print("cannot go on:", crash.exc_value, file=sys.stderr), os._exit(1))
for sign in (signal.SIGTERM, signal.SIGINT):
    signal.signal(sign, lambda *_: leaving.set())
threading.Thread(target=work, daemon=True).start()
leaving.wait()
with at_work:    # the task in hand is finished and told first; dropping a poll that is under way loses nothing
    sys.exit()
