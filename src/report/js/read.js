// Reads values under the pointer or by arrow keys: a crosshair, a dot per line, and a note beside it.

const tip = document.body.appendChild(document.createElement('div'));
tip.id = 'tip';
tip.hidden = true;
const say = document.body.appendChild(document.createElement('div'));
say.id = 'say';
say.setAttribute('aria-live', 'polite');

function digits(v, n) {
  const size = Math.abs(v);
  if (size > 0 && (size < 1e-3 || size >= 1e6)) return v.toExponential(n - 1);
  return size < Math.pow(10, n) ? v.toPrecision(n) : v.toFixed(0);
}

// Index of the point that is nearest to v.
function nearest(points, v) {
  let best = -1;
  points.forEach((p, i) => { if (best < 0 || Math.abs(p.x - v) < Math.abs(points[best].x - v)) best = i; });
  return best;
}

// The value of each visible line at the measured point nearest to `v`; none for lines that end before or begin later.
function read(g, v) {
  const lines = visibleLines(g.name), places = lines.map(l => l.points[nearest(l.points, v)]);
  if (!places.length) return null;
  const x = places[nearest(places, v)].x, slack = 0.02 * (g.x.hi - g.x.lo);
  const rows = lines.filter(l => x >= l.points[0].x - slack && x <= l.points[l.points.length - 1].x + slack)
    .map(l => ({ k: l.k, ...l.points[nearest(l.points, x)] }));
  rows.sort((a, b) => b.mean - a.mean);
  return { x, rows };
}

function cell(row, text) {
  const td = row.insertCell();
  td.textContent = text;
  return td;
}

function noteOf(g, found) {
  const head = document.createElement('b'), table = document.createElement('table');
  const title = axisOf(data.charts[g.name]).title;
  head.textContent = `${title}: ${+(found.x / g.x.divisor).toPrecision(5)} ${g.x.unit}`.trim();
  for (const r of found.rows) {
    const row = table.insertRow();
    cell(row, data.series[r.k].label).insertAdjacentHTML('afterbegin', `<i class="c${r.k % data.colours}"></i>`);
    cell(row, digits(r.mean, 4));
    cell(row, r.std > 0 ? '\u00b1 ' + digits(r.std, 2) : '');
  }
  return [head, table];
}

function show(plot, v, at) {
  leave();
  const g = plot.geometry, found = g && read(g, v);
  if (!found) return;
  const svg = plot.querySelector('svg'), px = g.px(found.x);
  element('path', { class: 'cross', d: `M${px} ${g.top}V${g.bottom}` }, svg);
  for (const r of found.rows)
    element('circle', { class: 'dot c' + (r.k % data.colours), cx: g.px(r.x), cy: g.py(r.mean), r: 3 }, svg);
  tip.replaceChildren(...noteOf(g, found));
  const box = svg.getBoundingClientRect(), scale = box.width / g.width;
  place(box.left + px * scale, at === undefined ? box.top + g.top * scale : at);
  tip.at = found.x;
  tip.plot = plot.id;
}

// Beside the point, on the side with room.
function place(x, y) {
  tip.hidden = false;
  tip.style.left = tip.style.top = '0';
  const w = tip.offsetWidth, h = tip.offsetHeight, wide = document.documentElement.clientWidth;
  const left = x + 16 + w < wide ? x + 16 : x - 16 - w;
  tip.style.left = Math.max(4, Math.min(left, wide - w - 4)) + scrollX + 'px';
  tip.style.top = Math.max(4, Math.min(y + 12, innerHeight - h - 4)) + scrollY + 'px';
}

function leave() {
  tip.hidden = true;
  all('.cross, .dot').forEach(e => e.remove());
}

function step(plot, key) {
  const g = plot.geometry, within = p => p.x >= g.x.lo && p.x <= g.x.hi;
  const places = visibleLines(g.name).flatMap(l => l.points.filter(within).map(p => p.x));
  const xs = [...new Set(places)].sort((a, b) => a - b).map(x => ({ x }));
  if (!xs.length) return;
  const now = tip.hidden || tip.plot !== plot.id ? -1 : nearest(xs, tip.at);
  const to = { ArrowRight: now + 1, ArrowLeft: now < 0 ? xs.length - 1 : now - 1, Home: 0, End: xs.length - 1 }[key];
  show(plot, xs[Math.max(0, Math.min(xs.length - 1, to))].x);
  const lines = all('tr', tip).map(row => all('td', row).map(td => td.textContent).join(' '));
  say.textContent = [tip.firstChild.textContent, ...lines].join('; ');
}

function showCell(svg, event) {
  const [left, top, width, height] = svg.dataset.cells.split(' ').map(Number), n = data.heat.classes;
  const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
  const i = Math.floor(((event.clientX - box.left) / scale - left) / width);
  const j = Math.floor(((event.clientY - box.top) / scale - top) / height);
  if (i < 0 || j < 0 || j >= n || (i + 1) * n > data.heat.counts.length) return leave();
  const mine = data.heat.counts.slice(i * n, i * n + n), sum = mine.reduce((a, b) => a + b, 0);
  const head = document.createElement('b');
  head.textContent = `client ${i}, class ${j}`;
  tip.replaceChildren(head, `${mine[j]} of ${sum} samples`);
  place(event.clientX, event.clientY);
  tip.plot = null;
}
