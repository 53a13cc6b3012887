"""Opens the pages of make_page in a browser and uses them as a reader would: check.py CHROMIUM FOLDER"""
import http.server
import os
import sys
import threading

from browser import Browser, check, conclude


def quiet(b, what, own):
    """Nothing to complain about, and nothing asked for but the page itself."""
    check(f"{what}: no errors", not b.complaints, b.complaints)
    others = [u for u in b.requests if u != own and not u.startswith("data:")]
    check(f"{what}: no request leaves the page", not others, others)


def shown(b, selector):
    """How many elements have a size on the screen."""
    return b.js(f"[...document.querySelectorAll('{selector}')].filter(e => e.getBoundingClientRect().width > 20).length")


TIP = "(document.getElementById('tip') && !document.getElementById('tip').hidden) ? document.getElementById('tip').innerText : ''"
ROWS = "[...document.querySelectorAll('#tip tr')].map(r => [...r.cells].map(c => c.textContent))"
CURVES = "[...document.querySelectorAll('#test-accuracy-rounds g[data-series]')].filter(g => g.getBoundingClientRect().width > 0).length"


def self_check(b, folder):
    """The checks below rest on the browser's telling; a bad page must be told of."""
    path = os.path.join(folder, "bad.html")
    with open(path, "w", encoding="utf-8") as f:
        f.write("<!DOCTYPE html><img src='http://127.0.0.1:9/x.png'><script>console.error('told'); nothing.there</script>")
    b.open("file://" + path)
    b.wait(0.5)
    check("a console error is noticed", any("told" in c for c in b.complaints), b.complaints)
    check("an exception is noticed", any("ReferenceError" in c for c in b.complaints), b.complaints)
    check("a request is noticed", "http://127.0.0.1:9/x.png" in b.requests, b.requests)
    check("a missing chart is noticed", shown(b, ".chart svg") == 0)


def check_render(b, url):
    b.open(url)
    check("seven charts against rounds are shown", shown(b, ".chart svg") == 7, shown(b, ".chart svg"))
    check("an axis that nobody measured is not offered", b.js("[...document.querySelectorAll('input[name=x]')].map(e => e.value).join()") == "rounds,bytes,seconds")
    check("curves are drawn", b.js(CURVES) == 5, b.js(CURVES))
    check("the heat map is shown", shown(b, "#heatmap") == 1)
    check("the table is shown", shown(b, "tbody tr") == 5)
    check("the best accuracy is bold", b.js("[...document.querySelectorAll('tbody td:nth-child(2) b')].map(e => e.textContent).join()") == "0.902 \u00b1 0.003")
    check("nothing is wider than the window", b.js("document.documentElement.scrollWidth <= innerWidth"))


def check_hover(b):
    b.point("#test-accuracy-rounds", 0.6, 0.5)
    rows = b.js(ROWS)
    check("hovering shows a line per curve", len(rows) == 5, rows)
    check("the tooltip names the place", b.js(TIP).startswith("rounds: 1"), b.js(TIP))
    check("the values are those of the data", b.js("""(() => { const d = JSON.parse(document.getElementById('data').textContent);
        return [...document.querySelectorAll('#tip tr')].every(r => { const k = d.series.indexOf(r.cells[0].textContent),
          x = +document.querySelector('#tip b').textContent.replace(/[^0-9.]/g, ''), s = d.values['test-accuracy'][k],
          i = s.x[0].indexOf(x); return Math.abs(s.mean[i] - r.cells[1].textContent) < 1e-4 && r.cells[2].textContent.startsWith('\\u00b1'); }); })()"""))
    check("the best curve is on top", [r[1] for r in rows] == sorted((r[1] for r in rows), reverse=True), rows)
    check("a crosshair is drawn", b.js("document.querySelectorAll('.cross').length") == 1)
    b.point("h1", 0.1, 0.5)
    check("leaving hides it", b.js(TIP) == "" and b.js("document.querySelectorAll('.cross, .dot').length") == 0, b.js(TIP))
    b.point("#heatmap", 0.5, 0.4)
    check("the heat map tells counts", "samples" in b.js(TIP), b.js(TIP))
    b.point("h1", 0.1, 0.5)


def check_legend(b):
    b.point("#series-2", click=True)
    check("a click hides a curve in every chart", b.js("""[...document.querySelectorAll('g[data-series="2"]')]
        .every(g => getComputedStyle(g).display === 'none')""") and b.js(CURVES) == 4, b.js(CURVES))
    check("the entry says so", b.js("document.getElementById('series-2').getAttribute('aria-pressed')") == "false")
    b.point("#test-accuracy-rounds", 0.6, 0.5)
    check("a hidden curve is not read", "SCAFFOLD" not in b.js(TIP) and "FedDyn" in b.js(TIP), b.js(TIP))
    b.js("document.getElementById('series-2').focus()")
    b.key(" ")
    check("the space bar brings it back", b.js(CURVES) == 5, b.js(CURVES))
    b.point("#series-none", click=True)
    check("none hides all", b.js(CURVES) == 0, b.js(CURVES))
    b.point("#series-all", click=True)
    check("all brings all back", b.js(CURVES) == 5, b.js(CURVES))


def check_selectors(b):
    b.point("#x-bytes + span", click=True)
    check("charts against bytes", b.js("""[...document.querySelectorAll('.chart')]
        .every(f => (f.getBoundingClientRect().width > 0) === (f.dataset.x === 'bytes'))"""))
    b.point("#test-accuracy-bytes", 0.3, 0.5)
    check("the tooltip has the unit", "GB" in b.js(TIP).split("\n")[0], b.js(TIP))
    b.point("#test-accuracy-bytes", 0.95, 0.5)
    check("curves that ended are not read", len(b.js(ROWS)) == 2, b.js(ROWS))
    b.js("document.getElementById('y').value = 'gradient'; document.getElementById('y').dispatchEvent(new Event('change', {bubbles: true}))")
    check("one metric alone", shown(b, ".chart svg") == 1, shown(b, ".chart svg"))
    b.call("Emulation.setEmulatedMedia", media="print")
    check("print shows all metrics", shown(b, ".chart svg") == 7, shown(b, ".chart svg"))
    check("print leaves the configurations out", shown(b, ".configs") == 0)
    b.call("Emulation.setEmulatedMedia", media="")


def check_keyboard(b, url):
    b.open(url)
    b.js("document.getElementById('test-accuracy-rounds').focus()")
    for name, place in (("ArrowRight", "rounds: 0"), ("ArrowRight", "rounds: 5"), ("End", "rounds: 300"), ("ArrowLeft", "rounds: 295")):
        b.key(name)
        check(f"{name} moves to {place}", b.js(TIP).split("\n")[0].strip() == place, b.js(TIP))
    check("a screen reader is told", "FedAvg" in b.js("document.getElementById('say').textContent"))
    b.key("Escape")
    check("Escape closes", b.js(TIP) == "")
    b.js("document.getElementById('x-rounds').focus()")
    b.key("ArrowRight")
    check("arrow keys choose the axis", b.js("document.querySelector('.chart:not(.other-x)').dataset.x") == "bytes")


def check_clock(b, url):
    b.open(url)
    check("clock: the axis is offered", shown(b, ".controls label") == 5 and b.js("!!document.getElementById('x-simulated')"), shown(b, ".controls label"))
    check("clock: the clients' own models and staleness have charts", b.js("!!document.getElementById('local-test-accuracy-rounds')") and
          b.js("!!document.getElementById('staleness-rounds')") and not b.js("document.getElementById('regularizer-rounds')"))
    b.point("#x-simulated + span", click=True)
    check("clock: charts against simulated time", b.js("""[...document.querySelectorAll('.chart')]
        .every(f => (f.getBoundingClientRect().width > 0) === (f.dataset.x === 'simulated'))"""))
    b.point("#test-accuracy-simulated", 0.4, 0.5)
    rows = b.js(ROWS)
    check("clock: curves with a clock are read, others are not", sorted(r[0] for r in rows) == ["FedAvg", "FedProx (mu 0.01)"], rows)
    check("clock: the place is simulated time", b.js(TIP).startswith("simulated time: ") and "min" in b.js(TIP).split("\n")[0], b.js(TIP))
    b.js("document.getElementById('test-accuracy-simulated').focus()")
    b.key("Home")
    rows = b.js(ROWS)
    check("clock: the first place is the first that has one", b.js(TIP).startswith("simulated time: 0.66667 min"), b.js(TIP))
    check("clock: its values are those of its row", b.js("""(() => { const s = JSON.parse(document.getElementById('data').textContent).values['test-accuracy'][0],
        i = s.x[3].indexOf(40); return s.x[3][0] === null && i === 1 &&
          [...document.querySelectorAll('#tip tr')].some(r => r.cells[0].textContent === 'FedAvg' && Math.abs(s.mean[1] - r.cells[1].textContent) < 1e-4); })()"""), rows)
    quiet(b, "clock", url)


def check_contrast(b, url):
    """WCAG contrast of text and of the curves' colours against the ground, in both modes."""
    for dark in (False, True):
        b.open(url, dark=dark)
        ratios = b.js("""(() => {
            const rgb = c => c.match(/[0-9.]+/g).slice(0, 3).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
            const light = c => { const [r, g, b] = rgb(c); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
            const ground = light(getComputedStyle(document.body).backgroundColor);
            const ratio = c => { const v = light(c); return (Math.max(v, ground) + 0.05) / (Math.min(v, ground) + 0.05); };
            const style = (s, p) => [...document.querySelectorAll(s)].map(e => ratio(getComputedStyle(e)[p]));
            return { text: Math.min(...style('h1, p, .facts span, th, td, footer, figcaption, legend, summary, .plain', 'color')),
                     curves: Math.min(...style('.legend .line', 'stroke')) }; })()""")
        mode = "dark" if dark else "light"
        check(f"{mode}: text has contrast", ratios["text"] >= 4.5, ratios)
        check(f"{mode}: curves have contrast", ratios["curves"] >= 3, ratios)


def check_others(b, folder):
    for name in ("many", "empty", "start", "hostile"):
        url = f"file://{folder}/{name}.html"
        for width in (1200, 360):
            b.open(url, width=width)
            check(f"{name} at {width}: not wider than the window", b.js("document.documentElement.scrollWidth <= innerWidth"),
                  b.js("document.documentElement.scrollWidth"))
        quiet(b, name, url)
    check("foreign text stays text", b.js("document.querySelectorAll('img, script').length") == 2)
    check("foreign text is shown", "</script><script>evil()</script>" in b.js("document.querySelector('h1').textContent"))
    b.open(f"file://{folder}/demo.html", scripts=False)
    b.call("Emulation.setScriptExecutionDisabled", value=False)
    check("without JavaScript the charts against rounds are shown", shown(b, ".chart svg") == 7, shown(b, ".chart svg"))
    check("without JavaScript there are no dead controls", shown(b, ".controls") == 0)


class Pages(http.server.BaseHTTPRequestHandler):
    page = b""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(Pages.page)

    def log_message(self, *args):
        pass


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def check_live(b, folder):
    Pages.page = read(folder, "live1.html")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    status = "document.getElementById('status').textContent"
    b.open(url)
    check("live: says that it runs", b.js(status) == "running, 4 of 12 runs", b.js(status))
    b.point("#series-0", click=True)
    b.point("#x-seconds + span", click=True)
    b.point("#config-1", 0.1, click=True)
    b.js("scrollTo(0, 400); document.getElementById('series-1').focus({preventScroll: true})")
    b.wait(2.5)  # a poll that brings nothing new
    check("live: an unchanged page stays", b.js(status) == "running, 4 of 12 runs", b.js(status))
    Pages.page = read(folder, "live2.html")
    check("live: the newest page appears", b.until(f"{status} === 'running, 7 of 12 runs'"), b.js(status))
    check("live: hidden curves stay hidden", b.js("""document.querySelector('g[data-series="0"]').getBoundingClientRect().width""") == 0)
    check("live: the axis stays chosen", b.js("document.getElementById('x-seconds').checked") and
          b.js("document.querySelector('.chart:not(.other-x)').dataset.x") == "seconds")
    check("live: open details stay open", b.js("[...document.querySelectorAll('details')].map(d => d.open).join()") == "false,true,false")
    check("live: the place stays", b.js("scrollY") == 400, b.js("scrollY"))
    check("live: the focus stays", b.js("document.activeElement.id") == "series-1", b.js("document.activeElement.id"))
    quiet(b, "live", url)
    server.shutdown()
    server.server_close()
    check("live: says when the server has gone", b.until(f"{status}.includes('has ended')"), b.js(status))
    check("live: the curves are still there", shown(b, ".chart svg") > 0)


def main():
    program, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    b = Browser(program)
    try:
        self_check(b, folder)
        demo = f"file://{folder}/demo.html"
        check_render(b, demo)
        check_hover(b)
        check_legend(b)
        check_selectors(b)
        quiet(b, "demo", demo)
        check_keyboard(b, demo)
        check_clock(b, f"file://{folder}/clock.html")
        check_contrast(b, f"file://{folder}/many.html")
        check_others(b, folder)
        check_live(b, folder)
    finally:
        b.close()
    return conclude()


sys.exit(main())
