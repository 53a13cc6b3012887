"""Opens the pages of make_page in a browser and uses them as a reader would: check.py CHROMIUM FOLDER"""
import colorsys
import csv
import http.server
import json
import os
import re
import sys
import threading
import xml.etree.ElementTree

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
CURVES = "[...document.querySelectorAll('#test-accuracy .series')].filter(g => g.getBoundingClientRect().width > 0).length"
FITS = "document.documentElement.scrollWidth <= innerWidth"


def change(b, name, value):
    """Chooses in a select, or ticks a box, as a reader does."""
    b.js(f"(() => {{ const e = document.getElementById('{name}'); e.{'checked' if isinstance(value, bool) else 'value'} = "
         f"{json.dumps(value)}; e.dispatchEvent(new Event('change', {{bubbles: true}})); }})()")


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
    check("seven charts against rounds are shown, and two of clients", shown(b, ".chart svg") == 9, shown(b, ".chart svg"))
    check("an axis that nobody measured is not offered", b.js("[...document.querySelectorAll('input[name=x]')].map(e => e.value).join()") == "rounds,bytes,seconds")
    check("curves are drawn", b.js(CURVES) == 5, b.js(CURVES))
    check("the heat map is shown", shown(b, "#heatmap") == 1)
    check("the table is shown", shown(b, ".results tbody tr") == 5)
    order = b.js("[...document.querySelectorAll('#verdict, #results, #problem, #curves, #clients, #settings')].map(e => e.id).join()")
    check("the verdict and the table are first", order == "verdict,results,problem,curves,clients,settings", order)
    check("the verdict names those that noise does not part", "SCAFFOLD (0.902 \u00b1 0.003) comes out first" in b.js("document.getElementById('verdict').innerText")
          and "FedDyn (0.898 \u00b1 0.005) cannot be told from it" in b.js("document.getElementById('verdict').innerText"), b.js("document.getElementById('verdict').innerText"))
    bold = b.js("[...document.querySelectorAll('.results tbody b')].map(e => e.textContent.replace('\\u00a0', ' ')).join()")
    check("bold is what beats all others beyond noise", bold == "214 MB,65 \u00b1 4", bold)
    tied = b.js("[...document.querySelectorAll('.results tbody .tied')].map(e => e.textContent.replace('\\u00a0', ' ')).join()")
    check("ties of the goal are underlined", tied == "0.902 \u00b1 0.003,0.898 \u00b1 0.005", tied)
    check("bold is explained", "Bold: the best of its column, better than every other row beyond noise" in b.js("document.querySelector('main').innerText"))
    check("nothing is wider than the window", b.js(FITS))


def check_names(b):
    """What a screen reader is told."""
    nameless = b.js("""[...document.querySelectorAll('svg:not([aria-hidden])')].filter(e => e.getAttribute('role') !== 'img' || !e.getAttribute('aria-label')).length""")
    check("every picture has a name", nameless == 0, nameless)
    check("every chart says what its lines come to", b.js("""[...document.querySelectorAll('.plot svg')].every(e =>
        /^(Linear|Logarithmic) axis. .*SCAFFOLD: from /.test(document.getElementById(e.getAttribute('aria-describedby')).textContent))"""))
    check("every button has a name of its own", b.js("""(() => { const names = [...document.querySelectorAll('button')].map(e =>
        e.getAttribute('aria-label') || e.textContent.trim()); return names.every(n => n) && new Set(names).size === names.length; })()"""))
    check("every chart has a title", b.js("[...document.querySelectorAll('.chart h3')].every(e => e.textContent.trim()) && document.querySelectorAll('.chart h3').length === 9"))


def check_hover(b):
    b.point("#test-accuracy", 0.6, 0.5)
    rows = b.js(ROWS)
    check("hovering shows a line per curve", len(rows) == 5, rows)
    check("the tooltip names the place", re.match(r"rounds: (1[5-9]|2[0-5])[05]\b", b.js(TIP)), b.js(TIP))
    check("the values are those of the data", b.js("""(() => { const d = JSON.parse(document.getElementById('data').textContent);
        return [...document.querySelectorAll('#tip tr')].every(r => { const k = d.series.findIndex(s => s.label === r.cells[0].textContent),
          x = +document.querySelector('#tip b').textContent.replace(/[^0-9.]/g, ''), s = d.charts['test-accuracy'].series[k],
          i = s.x[0].indexOf(x), v = s.runs.map(r => r[i]), mean = (v[0] + v[1] + v[2]) / 3;
          return Math.abs(mean - r.cells[1].textContent) < 1e-4 && r.cells[2].textContent.startsWith('\\u00b1'); }); })()"""))
    check("the best curve is on top", [r[1] for r in rows] == sorted((r[1] for r in rows), reverse=True), rows)
    check("a crosshair is drawn", b.js("document.querySelectorAll('.cross').length") == 1)
    b.point("h1", 0.1, 0.5)
    check("leaving hides it", b.js(TIP) == "" and b.js("document.querySelectorAll('.cross, .dot').length") == 0, b.js(TIP))
    b.point("#heatmap", 0.5, 0.4)
    check("the heat map tells counts", "samples" in b.js(TIP), b.js(TIP))
    b.point("h1", 0.1, 0.5)


def check_legend(b):
    faint = "document.querySelectorAll('.faint').length"
    b.point("#series-2")
    check("a legend entry singles its curve out", b.js(faint) > 0)
    b.point("#series-2", click=True)
    check("a click hides a curve in every chart", b.js("document.querySelectorAll('g[data-series=\"2\"]').length") == 0 and b.js(CURVES) == 4, b.js(CURVES))
    check("the entry says so", b.js("document.getElementById('series-2').getAttribute('aria-pressed')") == "false")
    check("the others do not fade when it is switched off", b.js(faint) == 0, b.js(faint))
    b.point("h1", 0.1, 0.5)
    b.point("#series-2")
    check("hovering an entry that is off fades nothing", b.js(faint) == 0, b.js(faint))
    b.point("#test-accuracy", 0.6, 0.5)
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
    check("charts against bytes", b.js("""[...document.querySelectorAll('.curves .plot svg')].every(e => e.getAttribute('aria-label').endsWith('uploaded by all clients'))"""))
    check("the chart of clients keeps its axis", b.js("document.querySelector('#client-spread svg').getAttribute('aria-label')") == "accuracy on own samples against clients, from the worst")
    b.point("#test-accuracy", 0.3, 0.5)
    check("the tooltip has the unit", "GB" in b.js(TIP).split("\n")[0], b.js(TIP))
    b.point("#test-accuracy", 0.72, 0.5)
    check("curves that ended are not read", len(b.js(ROWS)) == 2, b.js(ROWS))
    change(b, "y", "gradient")
    check("one metric alone", shown(b, ".curves .chart svg") == 1, shown(b, ".curves .chart svg"))
    b.call("Emulation.setEmulatedMedia", media="print")
    check("print shows all metrics", shown(b, ".curves .chart svg") == 7, shown(b, ".curves .chart svg"))
    check("print leaves the tools out", shown(b, ".tools button") == 0 and shown(b, ".controls") == 0)
    b.call("Emulation.setEmulatedMedia", media="")


def check_scales(b, url):
    b.open(url)
    log = "document.querySelector('#{} svg').dataset.log"
    title = "[...document.querySelectorAll('#train-loss .title')].map(e => e.textContent).join()"
    check("losses are on the same scale", b.js(log.format("train-loss")) == "1" and b.js(log.format("test-loss")) == "1")
    check("a logarithmic axis is marked", b.js(title) == "rounds,training loss, log scale", b.js(title))
    b.point("#log-train-loss", click=True)
    check("the switch makes it linear", b.js(log.format("train-loss")) == "0" and b.js(title) == "rounds,training loss", b.js(title))
    check("other charts stay", b.js(log.format("test-loss")) == "1")
    check("the switch says so", b.js("document.getElementById('log-train-loss').getAttribute('aria-pressed')") == "false")
    b.point("#log-train-loss", click=True)
    check("and back", b.js(log.format("train-loss")) == "1")
    check("where values are not positive there is no logarithm", b.js("document.getElementById('log-client-change').disabled"))
    # the gradient's noise is as large as its mean: mean minus deviation would lie at the bottom
    low = b.js("""(() => { const plot = document.querySelector('#gradient'), g = plot.geometry;
        return Math.max(...[...plot.querySelectorAll('.band')].flatMap(e => e.getAttribute('d').match(/[ML][0-9.]+ [0-9.]+/g)
          .map(p => +p.split(' ')[1]))) - g.bottom; })()""")
    check("bands on a logarithmic axis do not plunge", low < -1, low)


def check_zoom(b):
    ticks = "[...document.querySelectorAll('#test-accuracy text[text-anchor=middle]:not(.title)')].map(e => e.textContent).join()"
    whole = b.js(ticks)
    check("there is nothing to undo at first", b.js("document.getElementById('reset-test-accuracy').hidden"))
    b.drag("#test-accuracy", 0.3, 0.6)
    zoom = b.js("(() => { const x = document.getElementById('test-accuracy').geometry.x; return [x.lo, x.hi]; })()")
    check("dragging zooms", 20 < zoom[0] < 120 and 150 < zoom[1] < 260 and b.js(ticks) != whole, zoom)
    check("lines are cut at the frame", b.js("""(() => { const g = document.getElementById('test-accuracy').geometry,
        c = document.querySelector('#clip-test-accuracy rect'); return +c.getAttribute('x') >= g.left - 5; })()"""))
    b.point("#reset-test-accuracy", click=True)
    check("the button shows all again", b.js(ticks) == whole, b.js(ticks))
    b.js("document.getElementById('test-accuracy').focus()")
    b.key("+")
    check("plus zooms in", b.js(ticks) != whole)
    b.key("-")
    check("minus zooms out", b.js(ticks) == whole)
    b.key("+")
    b.key("Escape")
    check("Escape shows all", b.js(ticks) == whole)


def check_seeds(b):
    change(b, "seeds", True)
    check("a line per seed", b.js("document.querySelectorAll('#test-accuracy .seed').length") == 15 and b.js("document.querySelectorAll('#test-accuracy .band').length") == 0)
    change(b, "seeds", False)
    check("and bands again", b.js("document.querySelectorAll('#test-accuracy .seed').length") == 0 and b.js("document.querySelectorAll('#test-accuracy .band').length") == 5)


def check_ends(b):
    ends = b.js("[...document.querySelectorAll('#test-accuracy .end text')].map(e => [e.textContent, e.getBoundingClientRect().top])")
    check("line ends are named", sorted(e[0] for e in ends) == ["FedAvg", "FedDyn", "FedNova", "FedProx", "SCAFFOLD"], ends)
    tops = sorted(e[1] for e in ends)
    check("titles of axes have room", b.js("""[...document.querySelectorAll('.plot svg')].every(svg => [...svg.querySelectorAll('.title')].every(e => {
        const t = e.getBoundingClientRect(), s = svg.getBoundingClientRect(); return t.top >= s.top && t.bottom <= s.bottom + 1 && t.right <= s.right + 1; }))"""))
    check("names do not overlap", all(y - x > 9 for x, y in zip(tops, tops[1:])), tops)


def check_sort(b):
    names = "[...document.querySelectorAll('.results tbody th')].map(e => e.textContent.trim()).join()"
    before = b.js(names)
    b.point("#sort-1", click=True)
    check("a column sorts, the best accuracy first", b.js(names) == "SCAFFOLD,FedDyn,FedProx (mu 0.01),FedAvg,FedNova", b.js(names))
    check("the order is told", b.js("document.querySelector('.results th:nth-child(2)').getAttribute('aria-sort')") == "descending")
    b.point("#sort-1", click=True)
    check("and the other way round", b.js(names) == "FedNova,FedAvg,FedProx (mu 0.01),FedDyn,SCAFFOLD", b.js(names))
    b.point("#sort-2", click=True)
    b.point("#sort-2", click=True)
    check("what was not reached comes last", b.js(names) == "SCAFFOLD,FedDyn,FedProx (mu 0.01),FedAvg,FedNova", b.js(names))
    b.point("#sort-0", click=True)
    check("names sort as names", b.js(names) == "FedAvg,FedDyn,FedNova,FedProx (mu 0.01),SCAFFOLD" and before.startswith("FedAvg,FedProx"), b.js(names))


def check_save(b, folder):
    saved = os.path.join(folder, "saved")
    os.makedirs(saved, exist_ok=True)
    b.call("Page.setDownloadBehavior", behavior="allow", downloadPath=saved)
    b.point("#svg-test-accuracy", click=True)
    b.point("#csv-test-accuracy", click=True)
    svg, table = (b.file(os.path.join(saved, "test-accuracy" + end)) for end in (".svg", ".csv"))
    root = xml.etree.ElementTree.fromstring(svg) if svg else None
    check("the SVG is a document of its own", root is not None and root.tag.endswith("svg") and root.get("width"))
    check("it has its colours and a title", b"rgb(0, 114, 178)" in svg and b"<title>Five methods on uneven digits: test accuracy against rounds</title>" in svg)
    check("it needs no style sheet", b"class=" not in svg and b"var(" not in svg)
    rows = list(csv.reader(table.decode().splitlines())) if table else [[]]
    check("the CSV has a row per method, seed and place", rows[0] == ["method", "seed", "rounds", "test-accuracy"] and len(rows) == 1 + 5 * 3 * 61, len(rows))
    check("its numbers are those of the data", b.js(f"Math.abs(JSON.parse(document.getElementById('data').textContent).charts['test-accuracy'].series[0].runs[1][0] - {rows[2][3]})") < 1e-12 and
          rows[2][:3] == ["FedAvg", "2", "0"], rows[2])


def check_looks(b, folder):
    """Many methods: no two look alike, and of two that coincide both are seen."""
    b.open(f"file://{folder}/many.html")
    looks = b.js("""[...document.querySelectorAll('.legend .line')].map(e => getComputedStyle(e).stroke + getComputedStyle(e).strokeDasharray)""")
    colours = b.js("[...document.querySelectorAll('.legend .line')].slice(0, 10).map(e => getComputedStyle(e).stroke)")
    check("twenty methods have twenty looks", len(set(looks)) == 20, looks)
    check("ten have colours of their own", len(set(colours)) == 10, colours)
    hues = sorted(hue(c) for c in colours if hue(c) is not None)
    check("no two of these are shades of one colour", all(y - x > 8 for x, y in zip(hues, hues[1:])), hues)
    b.open(f"file://{folder}/grid.html")
    pair = b.js("""[0, 1].map(k => { const e = document.querySelector(`#test-accuracy g[data-series="${k}"] .line`); return [e.getAttribute('d'), getComputedStyle(e).strokeDasharray]; })""")
    check("two methods coincide, and the upper one has gaps", pair[0][0] == pair[1][0] and pair[0][1] == "none" and pair[1][1] != "none", [p[1] for p in pair])
    check("settings are counted", "9 methods in 18 settings" in b.js("document.querySelector('.facts').innerText"))
    check("what differs is a table, what does not is folded", b.js("document.querySelectorAll('.configs tbody tr').length") == 2 and b.js("document.querySelectorAll('details').length") == 1)


def hue(colour):
    """In degrees; None for greys."""
    red, green, blue = (int(v) / 255 for v in re.findall(r"\d+", colour)[:3])
    h, _, s = colorsys.rgb_to_hls(red, green, blue)
    return 360 * h if s > 0.1 else None


def check_widths(b, folder):
    """No table is cut off, whatever the window's width and however many columns it has."""
    for name in ("demo", "grid", "clock"):
        for width in (360, 500, 768, 1024, 1200, 1400, 1700, 2000):
            b.open(f"file://{folder}/{name}.html", width=width)
            cut = b.js("[...document.querySelectorAll('.scroll')].filter(e => e.querySelector('table') && e.scrollWidth > e.clientWidth + 1).length")
            check(f"{name} at {width}: no table is cut off", cut == 0 and b.js(FITS), cut)
            if width == 360:
                outside = b.js("[...document.querySelectorAll('.controls *, .tools *, .plot svg')].filter(e => e.getBoundingClientRect().right > innerWidth - 15).length")
                check(f"{name} at {width}: controls stay inside", outside == 0, outside)
    b.open(f"file://{folder}/grid.html", width=360)
    check("on a phone a row is a card that names its values", b.js("""(() => { const td = document.querySelector('.results tbody td:nth-child(4)');
        return getComputedStyle(td, '::before').content === '"test accuracy %"' && getComputedStyle(td).display === 'flex'; })()"""))


def check_keyboard(b, url):
    b.open(url)
    b.js("document.getElementById('test-accuracy').focus()")
    for name, place in (("ArrowRight", "rounds: 0"), ("ArrowRight", "rounds: 5"), ("End", "rounds: 300"), ("ArrowLeft", "rounds: 295")):
        b.key(name)
        check(f"{name} moves to {place}", b.js(TIP).split("\n")[0].strip() == place, b.js(TIP))
    check("a screen reader is told", "FedAvg" in b.js("document.getElementById('say').textContent"))
    b.key("Escape")
    check("Escape closes", b.js(TIP) == "")
    b.js("document.getElementById('x-rounds').focus()")
    b.key("ArrowRight")
    check("arrow keys choose the axis", b.js("document.querySelector('#test-accuracy svg').getAttribute('aria-label')").endswith("uploaded by all clients"))


def check_clock(b, url):
    b.open(url)
    check("clock: the axis is offered", shown(b, "fieldset label") == 4 and b.js("!!document.getElementById('x-simulated')"), shown(b, "fieldset label"))
    check("clock: the clients' own models and staleness have charts", b.js("!!document.getElementById('local-test-accuracy')") and
          b.js("!!document.getElementById('staleness')") and not b.js("document.getElementById('regularizer')"))
    b.point("#x-simulated + span", click=True)
    check("clock: charts against simulated time", b.js("""[...document.querySelectorAll('.curves .plot svg')].every(e => e.getAttribute('aria-label').endsWith('simulated time'))"""))
    b.point("#test-accuracy", 0.4, 0.5)
    rows = b.js(ROWS)
    check("clock: curves with a clock are read, others are not", sorted(r[0] for r in rows) == ["FedAvg", "FedProx (mu 0.01)"], rows)
    check("clock: the place is simulated time", b.js(TIP).startswith("simulated time: ") and "min" in b.js(TIP).split("\n")[0], b.js(TIP))
    b.js("document.getElementById('test-accuracy').focus()")
    b.key("Home")
    rows = b.js(ROWS)
    check("clock: the first place is the first that has one", b.js(TIP).startswith("simulated time: 0.66667 min"), b.js(TIP))
    check("clock: its values are those of its row", b.js("""(() => { const s = JSON.parse(document.getElementById('data').textContent).charts['test-accuracy'].series[0],
        i = s.x[3].indexOf(40), mean = (s.runs[0][1] + s.runs[1][1] + s.runs[2][1]) / 3; return s.x[3][0] === null && i === 1 &&
          [...document.querySelectorAll('#tip tr')].some(r => r.cells[0].textContent === 'FedAvg' && Math.abs(mean - r.cells[1].textContent) < 1e-4); })()"""), rows)
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
            return { text: Math.min(...style('h1, h3, p, .facts span, th, td, dt, dd, li, footer, figcaption, legend, summary, .plain', 'color')),
                     curves: Math.min(...style('.legend .line', 'stroke')) }; })()""")
        mode = "dark" if dark else "light"
        check(f"{mode}: text has contrast", ratios["text"] >= 4.5, ratios)
        check(f"{mode}: curves have contrast", ratios["curves"] >= 3, ratios)


def check_others(b, folder):
    for name in ("many", "empty", "start", "hostile"):
        url = f"file://{folder}/{name}.html"
        for width in (1200, 360):
            b.open(url, width=width)
            check(f"{name} at {width}: not wider than the window", b.js(FITS), b.js("document.documentElement.scrollWidth"))
        quiet(b, name, url)
    check("foreign text stays text", b.js("document.querySelectorAll('img, script').length") == 2)
    check("foreign text is shown", "</script><script>evil()</script>" in b.js("document.querySelector('h1').textContent"))
    b.open(f"file://{folder}/demo.html", scripts=False)
    b.call("Emulation.setScriptExecutionDisabled", value=False)
    check("without JavaScript the charts against rounds are shown", shown(b, ".chart svg") == 9, shown(b, ".chart svg"))
    check("without JavaScript there are no dead controls", shown(b, ".controls") == 0 and shown(b, ".tools button, .sort") == 0 and shown(b, ".hint") == 0)


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
    b.point("#shared", 0.1, click=True)
    b.point("#sort-1", click=True)
    b.point("#log-test-accuracy", click=True)
    b.js("scrollTo(0, 400); document.getElementById('series-1').focus({preventScroll: true})")
    b.wait(2.5)  # a poll that brings nothing new
    check("live: an unchanged page stays", b.js(status) == "running, 4 of 12 runs", b.js(status))
    Pages.page = read(folder, "live2.html")
    check("live: the newest page appears", b.until(f"{status} === 'running, 7 of 12 runs'"), b.js(status))
    check("live: hidden curves stay hidden", b.js("""document.querySelectorAll('g[data-series="0"]').length""") == 0 and b.js(CURVES) == 1, b.js(CURVES))
    check("live: the axis stays chosen", b.js("document.getElementById('x-seconds').checked") and
          b.js("document.querySelector('#test-accuracy svg').getAttribute('aria-label')") == "test accuracy against time")
    check("live: open details stay open", b.js("[...document.querySelectorAll('details')].map(d => d.open).join()") == "true")
    check("live: the order stays", b.js("document.querySelector('.results th:nth-child(2)').getAttribute('aria-sort')") == "descending")
    check("live: the scale stays", b.js("document.querySelector('#test-accuracy svg').dataset.log") == "1")
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
        check_names(b)
        check_hover(b)
        check_legend(b)
        check_selectors(b)
        check_scales(b, demo)
        check_zoom(b)
        check_seeds(b)
        check_ends(b)
        check_sort(b)
        quiet(b, "demo", demo)
        check_save(b, folder)
        check_keyboard(b, demo)
        check_looks(b, folder)
        check_widths(b, folder)
        check_clock(b, f"file://{folder}/clock.html")
        check_contrast(b, f"file://{folder}/many.html")
        check_others(b, folder)
        check_live(b, folder)
    finally:
        b.close()
    return conclude()


sys.exit(main())
