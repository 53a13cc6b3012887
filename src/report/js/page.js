// The reader's choices: axes, scales, lines, ranges, the order of tables. Listeners are on the document and look up
// what they need, so that a <main> replaced by live.js only needs apply().

const state = { x: 'rounds', y: 'all', seeds: false, off: new Set(), open: new Set(), views: {}, sort: null };
const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));
let data;

// ---- charts

const toolButtons = [
  { tool: 'log', text: 'log', title: 'logarithmic y axis' },
  { tool: 'reset', text: 'whole range', title: 'shows the whole range again' },
  { tool: 'svg', text: 'SVG', title: 'saves this chart as SVG' },
  { tool: 'csv', text: 'CSV', title: 'saves its numbers as CSV' }
];

function makeTools(figure) {
  const tools = figure.querySelector('.tools'), name = figure.dataset.chart;
  for (const b of tools.children.length ? [] : toolButtons) {
    const button = document.createElement('button');
    Object.assign(button, { type: 'button', id: `${b.tool}-${name}`, textContent: b.text, title: b.title });
    button.dataset.tool = b.tool;
    button.setAttribute('aria-label', `${b.title}: ${data.charts[name].title}`);
    tools.append(button);
  }
}

function redraw(figure) {
  const name = figure.dataset.chart, plot = figure.querySelector('.plot');
  if (!data.charts[name] || !plot.clientWidth) return;
  makeTools(figure);
  drawChart(plot);
  const log = document.getElementById('log-' + name);
  log.setAttribute('aria-pressed', plot.geometry.y.log);
  log.disabled = !canBeLog(visibleLines(name));
  document.getElementById('reset-' + name).hidden = !viewOf(name).zoom;
}

function redrawAll() {
  leave();
  all('.chart').forEach(redraw);
}

function useTool(button) {
  const figure = button.closest('.chart'), name = figure.dataset.chart, plot = figure.querySelector('.plot');
  const tool = button.dataset.tool;
  if (tool === 'svg') return save(name + '.svg', 'image/svg+xml', svgText(plot));
  if (tool === 'csv') return save(name + '.csv', 'text/csv', csvText(name));
  if (tool === 'log') viewOf(name).log = !plot.geometry.y.log;
  else viewOf(name).zoom = null;
  redraw(figure);
}

// ---- zooming

let drag = null;

function zoomTo(plot, range) {
  viewOf(plot.id).zoom = range;
  leave();
  redraw(plot.closest('.chart'));
}

const chartX = (plot, event) => {
  const box = plot.querySelector('svg').getBoundingClientRect();
  return (event.clientX - box.left) / box.width * plot.geometry.width;
};

function dragging(event) {
  const g = drag.plot.geometry, to = Math.min(g.right, Math.max(g.left, chartX(drag.plot, event)));
  drag.moved = drag.moved || Math.abs(to - drag.from) > 6;
  drag.to = to;
  if (!drag.moved) return;
  leave();
  all('.stretch').forEach(e => e.remove());
  element('rect', { class: 'stretch', x: Math.min(drag.from, to), y: g.top, width: Math.abs(to - drag.from),
    height: g.bottom - g.top }, drag.plot.querySelector('svg'));
}

function dropped() {
  const { plot, from, to, moved } = drag;
  drag = null;
  all('.stretch').forEach(e => e.remove());
  if (moved && Math.abs(to - from) > 6)
    zoomTo(plot, [plot.geometry.value(Math.min(from, to)), plot.geometry.value(Math.max(from, to))]);
}

// Zooms around the crosshair or the middle; zooming out ends at the data's range.
function zoomBy(plot, factor) {
  const g = plot.geometry, middle = tip.hidden || tip.plot !== plot.id ? (g.x.lo + g.x.hi) / 2 : tip.at;
  const [lo, hi] = extent(linesOf(plot.id).flatMap(l => l.points.map(p => p.x)));
  const from = Math.max(lo, middle - (middle - g.x.lo) * factor);
  const to = Math.min(hi, middle + (g.x.hi - middle) * factor);
  zoomTo(plot, from <= lo && to >= hi ? null : [from, to]);
}

// ---- lines

function applySeries() {
  for (const b of all('[aria-pressed][data-toggle]')) b.setAttribute('aria-pressed', !state.off.has(+b.dataset.toggle));
  redrawAll();
}

function toggle(what) {
  if (what === 'all') state.off.clear();
  else if (what === 'none') data.series.forEach((_, k) => state.off.add(k));
  else if (!state.off.delete(+what)) state.off.add(+what);
  applySeries();
  singleOut(null);
}

// While the pointer rests on a legend entry, the other lines fade, unless that entry is switched off.
function singleOut(k) {
  const alone = k !== null && !state.off.has(k);
  for (const g of all('g[data-series]')) g.classList.toggle('faint', alone && +g.dataset.series !== k);
}

// ---- tables

function sortBy(table, column, down) {
  const body = table.tBodies[0], value = row => row.cells[column].dataset.value;
  const text = row => row.cells[column].textContent, sign = down ? -1 : 1;
  const order = (a, b) => {
    if ((value(a) === undefined) !== (value(b) === undefined)) return value(a) === undefined ? 1 : -1;
    if (value(a) === undefined) return sign * text(a).localeCompare(text(b), 'en', { numeric: true });
    return sign * (value(a) - value(b));
  };
  body.append(...Array.from(body.rows).sort(order));
  Array.from(table.tHead.rows[0].cells).forEach((th, i) => {
    if (i === column) th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    else th.removeAttribute('aria-sort');
  });
}

function makeSorts() {
  for (const th of all('th[data-sort]')) {
    const button = document.createElement('button');
    Object.assign(button, { type: 'button', className: 'sort', textContent: th.textContent });
    button.id = 'sort-' + th.dataset.sort;
    th.replaceChildren(button);
  }
}

function useSort(th) {
  const column = +th.dataset.sort, again = state.sort && state.sort.column === column;
  const numeric = th.classList.contains('number');
  state.sort = { column, down: again ? !state.sort.down : numeric };
  applySort();
}

function applySort() {
  const table = document.querySelector('table.results'), { column, down } = state.sort || {};
  if (table && state.sort && table.tHead.rows[0].cells[column]) sortBy(table, column, down);
}

// A table that has no room for its columns gets a smaller font and, if that is not enough, a card per row.
function fitTables() {
  for (const box of all('.scroll')) {
    const table = box.querySelector('table');
    if (!table) continue;
    const overflows = () => table.offsetWidth > box.clientWidth + 1;
    table.classList.remove('tight', 'stacked');
    table.classList.toggle('tight', overflows());
    if (overflows()) table.classList.replace('tight', 'stacked');
  }
}

// ---- all of it

function apply() {
  const main = document.getElementById('report');
  data = JSON.parse(document.getElementById('data').textContent);
  lineCache = new Map();
  if (!data.charts[state.y]) state.y = 'all';
  if (!document.getElementById('x-' + state.x)) state.x = 'rounds';
  main.classList.toggle('single', state.y !== 'all');
  for (const figure of all('.curves .chart'))
    figure.classList.toggle('other-y', state.y !== 'all' && figure.dataset.chart !== state.y);
  for (const input of all('input[name=x]')) input.checked = input.value === state.x;
  for (const select of all('#y')) select.value = state.y;
  for (const box of all('#seeds')) box.checked = state.seeds;
  for (const details of all('details')) details.open = state.open.has(details.dataset.key);
  makeSorts();
  applySort();
  fitTables();
  applySeries();
}

// ---- events

const within = (event, selector) => (event.target instanceof Element ? event.target.closest(selector) : null);

document.addEventListener('click', event => {
  const toggled = within(event, '[data-toggle]'), tool = within(event, '[data-tool]');
  const sort = within(event, '.sort');
  if (toggled) toggle(toggled.dataset.toggle);
  if (tool) useTool(tool);
  if (sort) useSort(sort.parentNode);
});
document.addEventListener('change', event => {
  if (event.target.name === 'x') {
    state.x = event.target.value;
    for (const name in state.views) if (!data.charts[name] || !data.charts[name].axis) state.views[name].zoom = null;
  } else if (event.target.id === 'y') state.y = event.target.value;
  else if (event.target.id === 'seeds') state.seeds = event.target.checked;
  else return;
  apply();
});
document.addEventListener('toggle', event => {
  const key = event.target.dataset.key;
  if (event.target.isConnected && key) state.open[event.target.open ? 'add' : 'delete'](key);
}, true);

document.addEventListener('pointerdown', event => {
  const plot = within(event, '.plot');
  if (!plot || !plot.geometry || event.button) return;
  const g = plot.geometry, from = Math.min(g.right, Math.max(g.left, chartX(plot, event)));
  drag = { plot, from, to: from, moved: false };
});
document.addEventListener('pointerup', () => { if (drag) dropped(); });
document.addEventListener('pointercancel', () => {
  drag = null;
  all('.stretch').forEach(e => e.remove());
});
document.addEventListener('dblclick', event => {
  const plot = within(event, '.plot');
  if (plot) zoomTo(plot, null);
});
for (const kind of ['pointermove', 'pointerdown'])
  document.addEventListener(kind, event => {
    const plot = within(event, '.plot'), map = within(event, '#heatmap');
    if (drag && kind === 'pointermove') dragging(event);
    if (drag && drag.moved) return;
    if (map) showCell(map, event);
    else if (!plot || !plot.geometry) leave();
    else show(plot, plot.geometry.value(chartX(plot, event)), event.clientY);
  });
document.addEventListener('pointerover', event => {
  const entry = within(event, '.legend [data-toggle]'), k = entry ? +entry.dataset.toggle : NaN;
  singleOut(event.pointerType === 'mouse' && k >= 0 ? k : null);
});
document.documentElement.addEventListener('pointerleave', leave);
document.addEventListener('focusout', event => {
  if (event.target.id === tip.plot) leave();
});
document.addEventListener('keydown', event => {
  const plot = within(event, '.plot');
  if (event.key === 'Escape') {
    leave();
    if (plot && viewOf(plot.id).zoom) zoomTo(plot, null);
  } else if (plot && plot.geometry && ['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) {
    event.preventDefault();
    step(plot, event.key);
  } else if (plot && plot.geometry && ['+', '-'].includes(event.key) && !event.ctrlKey && !event.metaKey)
    zoomBy(plot, event.key === '+' ? 0.5 : 2);
});

// On paper all charts are shown, two side by side.
addEventListener('beforeprint', () => {
  leave();
  all('.plot').filter(plot => data.charts[plot.id]).forEach(plot => drawChart(plot, 340));
});
addEventListener('afterprint', redrawAll);

let seenWidth = innerWidth, waiting = 0;
addEventListener('resize', () => {
  if (innerWidth === seenWidth) return;
  seenWidth = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    fitTables();
    redrawAll();
  }, 100);
});
