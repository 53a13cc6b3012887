"""A federation of processes, and its status page as a reader would use it: page.py CHROMIUM FEDLOOM"""
import http.client
import json
import os
import random
import re
import subprocess
import sys
import time

from browser import Browser, check, conclude

CLIENTS = 6
SERVER = """data: {kind: joined, shape: [4], classes: 3, normalize: none}
partition: {clients: %d}
model: softmax
participation: everyone
local: {steps: 200, batch: 10, lr: 0.1}
algorithm: fedavg
rounds: 5000
""" % CLIENTS
EVIL = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script> & so on"


class Federation:
    """A server that goes on for longer than this test, and its clients."""

    def __init__(self, program):
        self.program, self.processes = program, []
        with open("server.yaml", "w", encoding="utf-8") as f:
            f.write(SERVER)
        self.log = open("server.log", "w", encoding="utf-8")
        self.server = self.start("serve", "server.yaml", "--output", "result", "--insecure-http", "--listen", "127.0.0.1:0", log=self.log)
        self.port = int(self.until(r"event=serving port=(\d+)"))
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self, *args, log=subprocess.DEVNULL):
        p = subprocess.Popen([self.program, *args], stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(p)
        return p

    def until(self, pattern, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with open("server.log", encoding="utf-8") as f:
                found = re.search(pattern, f.read())
            if found:
                return found.group(1)
            time.sleep(0.05)
        raise RuntimeError(f"no {pattern} in the server's log")

    def join(self, name):
        data = random.Random(name)
        with open(f"{name}.csv", "w", encoding="utf-8") as f:
            for i in range(40):
                f.write(",".join(f"{data.uniform(-1, 1) + 2 * (k == i % 3):.3f}" for k in range(4)) + f",{i % 3}\n")
        return self.start("join", self.url, "--data", f"{name}.csv", "--set", "data.header=false", "--name", name,
                          "--insecure-http", "--keep", f"keep-{name}")

    def call(self, name, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=40)
        with open(f"keep-{name}/instance", encoding="utf-8") as file:
            folder = file.read().strip()
        c.request(method, path, body, {"Fedloom-Protocol": "1 1", "Fedloom-Client": name, "Fedloom-Instance": f"{folder} {1:016x}"})
        answer = c.getresponse()
        content = answer.read()
        c.close()
        return answer.status, content

    def close(self):
        for p in self.processes:
            p.kill()
        for p in self.processes:
            p.wait(20)
        self.log.close()


def text(b, id):
    return b.js(f"document.getElementById('{id}').textContent")


def narrow(b, what):
    check(f"{what}: nothing is wider than the window", b.js("document.documentElement.scrollWidth <= innerWidth"),
          b.js("document.documentElement.scrollWidth"))


def quiet(b, f, what):
    check(f"{what}: no errors", not b.complaints, b.complaints)
    others = [u for u in b.requests if not u.startswith(f.url + "/") and not u.startswith("data:")]
    check(f"{what}: nothing is asked of others", not others, others)


def picture(b, name):
    folder = os.environ.get("PICTURES")
    if folder:
        b.screenshot(os.path.join(folder, name + ".png"))


def check_joining(b, f):
    b.open(f.url + "/")
    check("it says who is missing", b.until(f"document.getElementById('title').textContent === '0 of {CLIENTS} clients joined'"), text(b, "title"))
    check("missing clients are listed", b.js("document.querySelectorAll('#people tr').length") == CLIENTS)
    check("there are no curves yet", b.js("document.getElementById('curves').hidden"))
    quiet(b, f, "joining")
    picture(b, "joining")


def check_running(b):
    check("it goes on", b.until("/^Round (\\d\\d|[6-9])/.test(document.getElementById('title').textContent)", 60), text(b, "title"))
    check("curves are drawn", b.until("document.querySelectorAll('#charts .line').length >= 1"))
    check("a curve has points", b.js("document.querySelector('#charts .line').getAttribute('points').split(' ').length > 3"))
    check("a curve is as wide as its place", b.js("document.querySelector('#charts svg').getBoundingClientRect().width > 200"))
    check("the table has everybody", b.js("[...document.querySelectorAll('#people .name')].map(e => e.textContent).sort().join()")
          == ",".join(f"site-{i}" for i in range(CLIENTS)))
    check("there is a checkpoint", "Checkpoint" in text(b, "facts"), text(b, "facts"))


def refuse(f, name):
    """As another process of a client, started in its folder: fetches an ask and refuses it."""
    for _ in range(20):
        code, ask = f.call(name, "GET", "/v1/ask?wait=5")
        if code != 200:
            continue
        number = int.from_bytes(ask[16:24], "little")
        code, _ = f.call(name, "POST", "/v1/refuse", json.dumps({"number": number, "reason": EVIL}))
        if code == 200:
            return True
    return False


def check_trouble(b):
    check("a refusal is shown", b.until("document.querySelectorAll('#mishaps tr').length === 1"))
    cells = b.js("[...document.querySelectorAll('#mishaps td')].map(e => e.textContent)")
    check("with the client's words", cells and cells[1] == "site-2" and cells[2] == "refused" and cells[4].startswith("<img src=x"), cells)
    check("which are no markup", b.js("document.images.length === 0 && document.scripts.length === 1 && !document.title.includes('broken')"))
    check("who is awaited is shown", b.until("document.querySelector('#stragglers li span')?.textContent === 'site-2'"), text(b, "stragglers"))
    check("its row says how often it refused", b.js("document.querySelectorAll('#people .some').length") == 1)
    b.js("(() => { const i = document.getElementById('filter'); i.value = 'site-3'; i.dispatchEvent(new Event('input')); })()")
    check("one can look for a client", b.js("document.querySelectorAll('#people tr').length") == 1)
    b.js("(() => { const i = document.getElementById('filter'); i.value = ''; i.dispatchEvent(new Event('input')); })()")


def check_looks(b, f):
    for name, width, dark in (("desktop", 1200, False), ("dark", 1200, True), ("phone", 390, False), ("phone-dark", 390, True)):
        b.open(f.url + "/", width=width, height=900, dark=dark)
        b.until("document.querySelectorAll('#people tr').length > 0 && document.querySelectorAll('#charts svg').length > 0")
        narrow(b, name)
        quiet(b, f, name)
        picture(b, name)
    light = b.js("getComputedStyle(document.body).backgroundColor")
    check("dark is dark", light == "rgb(22, 24, 27)", light)


def main():
    f = Federation(sys.argv[2])
    b = Browser(sys.argv[1])
    try:
        check_joining(b, f)
        clients = [f.join(f"site-{i}") for i in range(CLIENTS)]
        f.until(r"(event=round round=8)")
        check_running(b)
        clients[2].kill()
        clients[2].wait(20)
        check("a client refuses", refuse(f, "site-2"))
        check_trouble(b)
        quiet(b, f, "running")
        check_looks(b, f)
        f.server.kill()
        f.server.wait(20)
        check("a server that is away is said to be", b.until("!document.getElementById('stale').hidden", 20))
        check("what was there stays", b.js("document.querySelectorAll('#people tr').length") == CLIENTS)
        picture(b, "away")
    finally:
        b.close()
        f.close()
    sys.exit(conclude())


main()
