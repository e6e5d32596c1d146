"""An order decided in Python: the handlers of order.yaml, and its tasks.  BOWLINE_TOKEN=... python3 worker.py order-py

Nothing but the standard library. A handler is given {"data", "task_result", "state", "job_id", ...} and answers with
{"data": what changes, "actions": [at most one that leads on]}. ../python/worker.py is the same worker with its corners
explained."""
import json, os, random, signal, sys, threading, time, urllib.error, urllib.parse, urllib.request

URL = os.environ.get("BOWLINE_URL", "http://127.0.0.1:7420").rstrip("/")
NAME = sys.argv[1] if len(sys.argv) > 1 else sys.exit("usage: worker.py WORKER_ID")
ME = "/workers/" + urllib.parse.quote(NAME, safe="")
HEADERS = {"Authorization": "Bearer " + (os.environ.get("BOWLINE_TOKEN") or sys.exit("set BOWLINE_TOKEN")),
           "Content-Type": "application/json"}


class Transient(Exception):
    """Trying again may help."""


# The states.

def init(ask):
    data = ask["data"]
    total = data["price"] * data["quantity"]
    if total <= 100:
        return {"data": {"total": total}, "actions": [{"transition_to": "charge"}]}
    approval = {"title": f"Order of {data['customer']} for {total}?", "timeout_seconds": 86400, "four_eyes": False,
                "transitions": {"approved": "charge", "rejected": "refused", "expired": "refused"}}
    return {"data": {"total": total}, "actions": [{"await_approval": approval}]}


def begin_charge(ask):
    params = {"card": ask["data"]["card"], "amount": ask["data"]["total"]}
    return {"actions": [{"dispatch_task": {
        "type": "order.charge", "params": params, "timeout_seconds": 60, "retries": 1,
        "transitions": {"success": "ship", "declined": "declined", "failure": "refund"}}}]}


def ship(ask):
    tasks = [{"type": "order.pack", "params": {"quantity": ask["data"]["quantity"]}},
             {"type": "order.notify", "params": {"customer": ask["data"]["customer"]}}]
    return {"data": {"charge_id": ask["task_result"]["result"]["charge_id"]},
            "actions": [{"dispatch_parallel": {"tasks": tasks, "aggregate_into": "shipped"}}]}


def shipped(ask):
    ended = ask["task_result"]
    return {"data": {"status": "paid", "steps_done": ended["succeeded"]},
            "actions": [{"transition_to": "done" if ended["failed"] == 0 else "refund"}]}


def begin_refund(ask):
    params = {"card": ask["data"]["card"], "amount": ask["data"]["total"]}
    return {"actions": [{"dispatch_task": {
        "type": "order.refund", "params": params, "transitions": {"success": "refunded"}}}]}


def over(status):
    def handler(ask):
        data = {"status": status}
        if status == "refused":
            data["refused_by"] = ask["task_result"]["by"]
        return {"data": data, "actions": [{"transition_to": "done"}]}
    return handler


# The tasks. Card 0000 is declined, and card 9999 is one on which charges fail.

def charge(params):
    if params["card"] == "9999":
        raise Transient("the bank does not answer")
    if params["card"] == "0000":
        return {"status": "declined"}
    return {"status": "success", "charge_id": f"charge of {params['amount']}"}


TASKS = {"order.init": init, "order.begin_charge": begin_charge, "order.ship": ship, "order.shipped": shipped,
         "order.begin_refund": begin_refund, "order.refunded": over("refunded"), "order.declined": over("declined"),
         "order.refused": over("refused"), "order.charge": charge,
         "order.pack": lambda params: {"packed": params["quantity"]},
         "order.notify": lambda params: {"told": params["customer"]},
         "order.refund": lambda params: {"refunded": params["amount"]}}

# The worker.

in_hand, started, leaving, at_work = set(), set(), threading.Event(), threading.Lock()


def call(method, path, body=None):
    """One request, sent again until the server answers it. A refusal is an answer, too, and is raised."""
    data, pause = body and json.dumps(body).encode(), 0.25
    while True:
        try:
            request = urllib.request.Request(URL + path, data, HEADERS, method=method)
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            if refusal.code == 404 and path.startswith(ME):
                register()
            elif refusal.code < 500 and refusal.code not in (408, 429):
                raise
        except (OSError, ValueError):
            pass
        time.sleep(random.uniform(0, pause))
        pause = min(pause * 2, 10)


def register():
    return call("POST", "/workers/register", {"worker_id": NAME, "task_types": list(TASKS), "slots": 1})


def keep_leases(seconds):
    while not leaving.wait(seconds):
        if call("POST", ME + "/heartbeat", {"runs": list(in_hand)})["drain"]:
            leaving.set()


def execute(task):
    run, report = task["task_id"], {key: task[key] for key in ("task_id", "job_id", "fence")}
    if run in started or run not in call("POST", ME + "/heartbeat", {"runs": [run]})["renewed"]:
        return
    started.add(run), in_hand.add(run)
    try:
        report |= {"status": "success", "result": TASKS[task["task_type"]](task["params"])}
    except Transient as error:
        report |= {"status": "failure", "error": {"class": "transient", "message": str(error)}}
    except Exception as error:
        report |= {"status": "failure", "error": {"class": "permanent", "message": repr(error)}}
    try:
        call("POST", "/tasks/result", report)
    except urllib.error.HTTPError as refusal:
        print(f"task {run}: {refusal}", file=sys.stderr)
    in_hand.discard(run)


def work():
    threading.Thread(target=keep_leases, args=[register()["heartbeat_ms"] / 1000], daemon=True).start()
    print(f"{NAME} waits for work at {URL}", file=sys.stderr)
    while True:
        for task in call("GET", ME + "/tasks?max=1&wait=20000"):
            with at_work:
                execute(task)


threading.excepthook = lambda crash: (print("cannot go on:", crash.exc_value, file=sys.stderr), os._exit(1))
for sign in (signal.SIGTERM, signal.SIGINT):
    signal.signal(sign, lambda *_: leaving.set())
threading.Thread(target=work, daemon=True).start()
leaving.wait()
with at_work:
    sys.exit()
