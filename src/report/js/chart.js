// Draws a chart at its size on the screen: any axis, linear or logarithmic, the whole range or a part of it.

const svgNamespace = 'http://www.w3.org/2000/svg';
let lineCache = new Map();

function element(name, attributes, parent, text) {
  const e = document.createElementNS(svgNamespace, name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}

// ---- values

function quantile(sorted, q) {
  const at = q * (sorted.length - 1), i = Math.floor(at);
  return i + 1 < sorted.length ? (1 - at + i) * sorted[i] + (at - i) * sorted[i + 1] : sorted[i];
}

// Mean, deviation and quantiles over seeds.
function statistics(values) {
  const n = values.length, mean = values.reduce((a, b) => a + b / n, 0);
  const std = n > 1 ? Math.sqrt(values.reduce((a, v) => a + (v - mean) * (v - mean), 0) / (n - 1)) : 0;
  const sorted = values.slice().sort((a, b) => a - b);
  return { mean, std: isFinite(std) ? std : 0, q10: quantile(sorted, 0.1), q90: quantile(sorted, 0.9) };
}

function axisOf(chart) {
  return chart.axis || data.axes.find(a => a.name === state.x) || data.axes[0];
}

function makeLine(chart, s, k) {
  const own = typeof s.x === 'string' ? data.charts[s.x].series[k].x : s.x, points = [];
  const xs = own[chart.axis ? 0 : Math.max(0, data.axes.indexOf(axisOf(chart)))] || [];
  xs.forEach((x, i) => {
    const runs = s.runs.map(r => r[i]), known = runs.filter(v => v !== null);
    if (x !== null && known.length) points.push({ x, runs, ...statistics(known) });
  });
  return { k, points };
}

// A line per series against the chosen axis; one may be empty.
function linesOf(name) {
  const chart = data.charts[name], key = name + ' ' + axisOf(chart).name;
  if (!lineCache.has(key)) lineCache.set(key, chart.series.map((s, k) => makeLine(chart, s, k)));
  return lineCache.get(key);
}

function visibleLines(name) {
  return linesOf(name).filter(l => l.points.length && !state.off.has(l.k));
}

// ---- ranges

const viewOf = name => state.views[name] || (state.views[name] = {});
const band = (p, log) => (log ? [p.q10, p.q90] : [p.mean - p.std, p.mean + p.std]);

function extent(values) {
  return values.reduce(([lo, hi], v) => [Math.min(lo, v), Math.max(hi, v)], [Infinity, -Infinity]);
}

// A logarithmic axis needs positive values.
function canBeLog(lines) {
  return lines.length > 0 && lines.every(l => l.points.every(p => p.mean > 0));
}

function isLog(name, lines) {
  const chart = data.charts[name], chosen = viewOf(name).log;
  if (!canBeLog(lines)) return false;
  if (chosen !== undefined) return chosen;
  const [lo, hi] = extent(lines.flatMap(l => l.points.map(p => p.mean)));
  return chart.scale === 'log' || (chart.scale === 'wide' && hi / lo > 1e3);
}

function axesOf(name) {
  const chart = data.charts[name], visible = visibleLines(name), zoom = viewOf(name).zoom;
  const lines = visible.length ? visible : linesOf(name).filter(l => l.points.length), log = isLog(name, lines);
  const [x0, x1] = zoom || extent(lines.flatMap(l => l.points.map(p => p.x)));
  const shown = lines.flatMap(l => l.points.filter(p => p.x >= x0 && p.x <= x1));
  const inside = shown.length ? shown : lines.flatMap(l => l.points);
  const ys = inside.flatMap(p => (state.seeds ? p.runs.filter(v => v !== null) : [p.mean, ...band(p, log)]));
  const [y0, y1] = extent(log ? ys.filter(v => v > 0) : ys), some = isFinite(y0 + y1);
  return {
    x: makeAxis(isFinite(x0) ? x0 : 0, isFinite(x1) ? x1 : 1, { unit: axisOf(chart).unit, wanted: 6 }),
    y: makeAxis(some ? y0 : 0, some ? y1 : 1, { unit: chart.unit, log, wanted: 6, roundOut: true })
  };
}

// ---- layout

// An estimate by kinds of letters, as in chart.c.
const letterWidth = c => ('ijlft.,:;|!\'()[] '.includes(c) ? 3.7 : /[A-Z]/.test(c) ? 8 : /[mw@%]/.test(c) ? 9.5 : 6.5);
const textWidth = text => Array.from(text).reduce((sum, c) => sum + letterWidth(c), 0);

// An axis' title with its unit and scale; only the title itself is shortened.
function titleOf(title, axis, width) {
  const more = (axis.unit ? ` (${axis.unit})` : '') + (axis.log ? ', log scale' : '');
  return shorten(title, width - textWidth(more)) + more;
}

function shorten(text, width) {
  const letters = Array.from(text);
  if (textWidth(text) <= width) return text;
  while (letters.length > 1 && textWidth(letters.join('') + '\u2026') > width) letters.pop();
  return letters.join('') + '\u2026';
}

// Names of lines at their ends: without settings, if they stay distinct.
function endNames() {
  const full = data.series.map(s => s.label), short = full.map(label => label.replace(/ \([^()]*\)$/, ''));
  return new Set(short).size === short.length ? short : full;
}

const LABELS_MAX = 12; // more would not be readable

function layOut(name, width) {
  const { x, y } = axesOf(name), height = Math.round(Math.min(420, Math.max(230, 0.6 * width)));
  const labels = visibleLines(name), room = Math.min(0.24 * width, 130);
  const names = endNames(), widest = Math.max(0, ...labels.map(l => textWidth(names[l.k])));
  const labelled = labels.length > 1 && labels.length <= LABELS_MAX;
  const g = {
    name, width, height, x, y, labelled, names, top: 10, bottom: height - 38,
    left: 32 + Math.max(20, ...y.ticks.map(t => textWidth(t.label))),
    labelRoom: labelled ? Math.min(widest, room) : 0
  };
  g.right = width - 14 - (labelled ? g.labelRoom + 8 : 0);
  g.px = v => g.left + (g.right - g.left) * x.place(v);
  g.py = v => g.bottom - (g.bottom - g.top) * y.place(v);
  g.value = px => x.lo + (x.hi - x.lo) * Math.min(1, Math.max(0, (px - g.left) / (g.right - g.left)));
  return g;
}

// ---- drawing

const at = (x, y) => x.toFixed(1) + ' ' + y.toFixed(1);

function drawFrame(svg, g, chart) {
  const major = axis => axis.ticks.filter(t => t.label), ticks = (axis, f) => axis.ticks.map(f).join('');
  element('path', { class: 'grid', d: major(g.x).map(t => `M${at(g.px(t.v), g.bottom)}V${g.top}`).join('') +
    major(g.y).map(t => `M${at(g.left, g.py(t.v))}H${g.right.toFixed(1)}`).join('') }, svg);
  element('path', { class: 'axis', d: `M${at(g.left, g.top)}V${g.bottom}H${g.right.toFixed(1)}` +
    ticks(g.x, t => `M${at(g.px(t.v), g.bottom)}v${t.label ? 4 : 2}`) +
    ticks(g.y, t => `M${at(g.left, g.py(t.v))}h${t.label ? -4 : -2}`) }, svg);
  let last = -Infinity;
  for (const t of major(g.x)) {
    const half = textWidth(t.label) / 2, x = Math.min(g.px(t.v), g.width - half - 2);
    if (x - half < last + 6) continue;
    element('text', { x: x.toFixed(1), y: g.bottom + 16, 'text-anchor': 'middle' }, svg, t.label);
    last = x + half;
  }
  for (const t of major(g.y))
    element('text', { x: g.left - 7, y: (g.py(t.v) + 3.8).toFixed(1), 'text-anchor': 'end' }, svg, t.label);
  element('text', { class: 'title', 'text-anchor': 'middle', x: ((g.left + g.right) / 2).toFixed(1), y: g.height - 6 },
    svg, titleOf(axisOf(chart).title, g.x, g.right - g.left));
  element('text', { class: 'title', 'text-anchor': 'middle',
    transform: `translate(12 ${(g.top + g.bottom) / 2}) rotate(-90)` }, svg,
    titleOf(chart.title, g.y, g.bottom - g.top));
}

// The points in range and one more on either side, so that lines reach the edge.
function inRange(points, g) {
  const first = points.findIndex(p => p.x >= g.x.lo), beyond = points.findIndex(p => p.x > g.x.hi);
  if (first < 0) return points.slice(-1).filter(p => p.x >= g.x.lo);
  return points.slice(Math.max(0, first - 1), beyond < 0 ? points.length : beyond + 1);
}

// Positions outside the range are not clamped: the clip path cuts them off.
function beyond(g, x) {
  return g.left + (g.right - g.left) * (x - g.x.lo) / (g.x.hi - g.x.lo);
}

function path(points, g, y) {
  return points.map((p, i) => (i ? 'L' : 'M') + at(beyond(g, p.x), g.py(y(p)))).join('');
}

function drawBand(group, points, g) {
  if (state.seeds || points.length < 2 || !points.some(p => p.std > 0)) return;
  const edge = i => p => band(p, g.y.log)[i], back = path(points.slice().reverse(), g, edge(0));
  element('path', { class: 'band', d: path(points, g, edge(1)) + back.replace('M', 'L') + 'z' }, group);
}

function drawSeeds(group, points, g, k) {
  const seeds = data.series[k].seeds.length;
  for (let i = 0; state.seeds && seeds > 1 && i < seeds; i++) {
    const known = points.filter(p => p.runs[i] !== null && p.runs[i] !== undefined);
    element('path', { class: 'seed', d: path(known, g, p => p.runs[i]) }, group);
  }
}

// Marks all points if they are few, else a few of them, at different positions per series.
function drawMarks(group, points, g, k) {
  const spacing = points.length <= 12 ? 0 : (g.right - g.left) / 6;
  let next = g.left + spacing * (0.15 + 0.8 * ((k * 0.381966) % 1)), d = '';
  for (const p of points) {
    const x = beyond(g, p.x);
    if (x < next || x > g.right + 0.1) continue;
    d += 'M' + at(x, g.py(p.mean)) + data.markers[k % data.markers.length];
    while (spacing > 0 && next <= x) next += spacing;
  }
  if (d) element('path', { class: 'mark', d }, group);
}

function drawLine(plane, line, g) {
  const points = inRange(line.points, g), k = line.k, dash = k % data.dashes.length;
  const group = element('g', { class: 'series c' + (k % data.colours), 'data-series': k }, plane);
  drawBand(group, points, g);
  drawSeeds(group, points, g, k);
  element('path', { class: 'line d' + dash, d: path(points, g, p => p.mean) }, group);
  drawMarks(group, points, g, k);
}

// Positions of names that should stand at y, from top to bottom: names that would overlap are spread around their
// common middle.
function moveApart(ends, top, bottom) {
  const gap = 12, groups = [];
  for (const e of ends) {
    const group = { ends: [e], from: e.y };
    while (groups.length && groups[groups.length - 1].from + gap * groups[groups.length - 1].ends.length > group.from) {
      group.ends = [...groups.pop().ends, ...group.ends];
      const half = gap * (group.ends.length - 1) / 2, mid = group.ends.reduce((a, d) => a + d.y, 0) / group.ends.length;
      group.from = Math.max(top, Math.min(mid - half, bottom - 2 * half));
    }
    groups.push(group);
  }
  for (const group of groups) group.ends.forEach((e, i) => { e.to = group.from + gap * i; });
}

// Names at the ends of the lines.
function drawLabels(svg, lines, g) {
  const ends = lines.map(l => {
    const last = inRange(l.points, g).filter(p => p.x <= g.x.hi).pop();
    return last && { k: l.k, x: g.px(last.x), y: g.py(last.mean) };
  }).filter(Boolean).sort((a, b) => a.y - b.y);
  moveApart(ends, g.top, g.bottom);
  for (const e of ends) {
    const group = element('g', { class: 'end c' + (e.k % data.colours), 'data-series': e.k }, svg);
    element('path', { class: 'leader', d: `M${at(e.x, e.y)}H${g.right.toFixed(1)}L${at(g.right + 8, e.to)}` }, group);
    element('text', { x: (g.right + 11).toFixed(1), y: (e.to + 3.8).toFixed(1) }, group,
      shorten(g.names[e.k], g.labelRoom));
  }
}

// A description for readers who cannot see the chart.
function describe(name, lines, g) {
  const ends = lines.map(l => {
    const first = l.points[0], last = l.points[l.points.length - 1];
    return `${data.series[l.k].label}: from ${digits(first.mean, 4)} to ${digits(last.mean, 4)}.`;
  });
  return [g.y.log ? 'Logarithmic axis.' : 'Linear axis.', ...ends].join(' ');
}

function drawChart(plot, wanted) {
  const name = plot.id, chart = data.charts[name], width = Math.max(260, Math.round(wanted || plot.clientWidth));
  const g = layOut(name, width), lines = visibleLines(name), title = `${chart.title} against ${axisOf(chart).title}`;
  const svg = element('svg', { viewBox: `0 0 ${g.width} ${g.height}`, role: 'img', 'aria-label': title,
    'data-log': g.y.log ? 1 : 0, 'aria-describedby': 'about-' + name });
  element('desc', { id: 'about-' + name }, svg, describe(name, lines, g));
  const clip = element('clipPath', { id: 'clip-' + name }, element('defs', {}, svg));
  element('rect', { x: g.left - 4, y: g.top - 4, width: g.right - g.left + 8, height: g.bottom - g.top + 8 }, clip);
  drawFrame(svg, g, chart);
  const plane = element('g', { 'clip-path': `url(#clip-${name})` }, svg);
  for (const line of lines) drawLine(plane, line, g);
  if (g.labelled) drawLabels(svg, lines, g);
  const middle = { x: (g.left + g.right) / 2, y: (g.top + g.bottom) / 2, 'text-anchor': 'middle' };
  if (!lines.length) element('text', middle, svg, 'nothing to show');
  plot.replaceChildren(svg);
  plot.geometry = g;
}
