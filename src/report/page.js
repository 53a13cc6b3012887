// Shows and hides charts and curves, reads values under the pointer or with the arrow keys, and, while the comparison
// runs, swaps in the newest <main>. Listeners sit on the document and look up what they need, so a swapped <main> needs
// no set-up beyond apply().
(function () {
  'use strict';
  const state = { x: 'rounds', y: 'all', off: new Set(), open: new Set() };
  const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));
  const numbers = text => text.split(' ').map(Number);
  let data;

  document.documentElement.classList.add('js');
  const tip = document.body.appendChild(document.createElement('div'));
  tip.id = 'tip';
  tip.hidden = true;
  const say = document.body.appendChild(document.createElement('div'));
  say.id = 'say';
  say.setAttribute('aria-live', 'polite');

  // ---- what is shown

  function apply() {
    const main = document.getElementById('report');
    data = JSON.parse(document.getElementById('data').textContent);
    if (!data.values[state.y]) state.y = 'all';
    if (!document.getElementById('x-' + state.x)) state.x = 'rounds';
    main.classList.toggle('single', state.y !== 'all');
    for (const figure of all('.chart')) {
      figure.classList.toggle('other-x', figure.dataset.x !== state.x);
      figure.classList.toggle('other-y', state.y !== 'all' && figure.dataset.y !== state.y);
    }
    for (const input of all('input[name=x]')) input.checked = input.value === state.x;
    for (const select of all('#y')) select.value = state.y;
    for (const details of all('details')) details.open = state.open.has(details.dataset.key);
    applySeries();
  }

  function applySeries() {
    for (const g of all('[data-series]')) g.classList.toggle('off', state.off.has(+g.dataset.series));
    for (const b of all('[aria-pressed]')) b.setAttribute('aria-pressed', !state.off.has(+b.dataset.toggle));
  }

  function toggle(what) {
    if (what === 'all') state.off.clear();
    else if (what === 'none') data.series.forEach((_, k) => state.off.add(k));
    else if (!state.off.delete(+what)) state.off.add(+what);
    applySeries();
    leave();
  }

  // While the pointer rests on a legend entry the other curves step back.
  function singleOut(k) {
    for (const g of all('g[data-series]')) g.classList.toggle('faint', k !== null && +g.dataset.series !== k);
  }

  // ---- reading values

  function digits(v, n) {
    const size = Math.abs(v);
    if (size > 0 && (size < 1e-3 || size >= 1e6)) return v.toExponential(n - 1);
    return size < Math.pow(10, n) ? v.toPrecision(n) : v.toFixed(0);
  }

  function geometry(plot) {
    const svg = plot.querySelector('svg'), figure = plot.parentNode;
    const [left, top, right, bottom] = numbers(svg.dataset.box), [x0, x1, y0, y1] = numbers(svg.dataset.range);
    const scale = +svg.dataset.log ? Math.log10 : v => v;
    const clamp = v => Math.min(1, Math.max(0, v));
    return {
      svg, left, top, right, bottom, x0, x1,
      axis: all('input[name=x]').findIndex(input => input.value === figure.dataset.x),
      series: data.values[figure.dataset.y],
      divisor: +svg.dataset.divisor, unit: svg.dataset.unit,
      px: v => left + (right - left) * clamp((v - x0) / (x1 - x0)),
      py: v => bottom - (bottom - top) * clamp((scale(v) - scale(y0)) / (scale(y1) - scale(y0))),
      value: px => x0 + (x1 - x0) * clamp((px - left) / (right - left))
    };
  }

  function nearest(xs, v) {
    let best = -1;
    xs.forEach((x, i) => { if (x !== null && (best < 0 || Math.abs(x - v) < Math.abs(xs[best] - v))) best = i; });
    return best;
  }

  // A curve may have no place, or some points without one, on an axis that others have.
  function visible(g) {
    return g.series.map((s, k) => ({ s, k, xs: s.x[g.axis], known: s.x[g.axis].filter(x => x !== null) }))
      .filter(e => e.known.length && !state.off.has(e.k));
  }

  // Every visible curve's value at the measured place nearest to `v`; those that ended before or begin after have none.
  function read(g, v) {
    const places = visible(g).map(e => e.xs[nearest(e.xs, v)]);
    if (!places.length) return null;
    const x = places[nearest(places, v)], slack = 0.02 * (g.x1 - g.x0);
    const rows = visible(g).filter(e => x >= Math.min(...e.known) - slack && x <= Math.max(...e.known) + slack).map(e => {
      const i = nearest(e.xs, x);
      return { k: e.k, x: e.xs[i], mean: e.s.mean[i], std: e.s.std[i] };
    });
    rows.sort((a, b) => b.mean - a.mean);
    return { x, rows };
  }

  function element(name, attributes) {
    const e = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    return e;
  }

  function cell(row, text) {
    const td = row.insertCell();
    td.textContent = text;
    return td;
  }

  function show(plot, v, at) {
    leave();
    const g = geometry(plot), found = read(g, v);
    if (!found) return;
    const px = g.px(found.x);
    g.svg.append(element('path', { class: 'cross', d: `M${px} ${g.top}V${g.bottom}` }));
    const head = document.createElement('b'), table = document.createElement('table');
    head.textContent = `${data.x[g.axis]}: ${+(found.x / g.divisor).toPrecision(5)} ${g.unit}`;
    for (const r of found.rows) {
      const colour = 'c' + (r.k % data.colours);
      g.svg.append(element('circle', { class: 'dot ' + colour, cx: g.px(r.x), cy: g.py(r.mean), r: 3 }));
      const row = table.insertRow();
      cell(row, data.series[r.k]).insertAdjacentHTML('afterbegin', `<i class="${colour}"></i>`);
      cell(row, digits(r.mean, 4));
      cell(row, r.std > 0 ? '\u00b1 ' + digits(r.std, 2) : '');
    }
    tip.replaceChildren(head, table);
    const box = g.svg.getBoundingClientRect(), scale = box.width / g.svg.viewBox.baseVal.width;
    place(box.left + px * scale, at === undefined ? box.top + g.top * scale : at);
    tip.at = found.x;
    tip.plot = plot.id;
  }

  // Beside the point, on whichever side there is room.
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
    const g = geometry(plot), xs = [...new Set(visible(g).flatMap(e => e.known))].sort((a, b) => a - b);
    if (!xs.length) return;
    const now = tip.hidden || tip.plot !== plot.id ? -1 : nearest(xs, tip.at);
    const to = { ArrowRight: now + 1, ArrowLeft: now < 0 ? xs.length - 1 : now - 1, Home: 0, End: xs.length - 1 }[key];
    show(plot, xs[Math.max(0, Math.min(xs.length - 1, to))]);
    const lines = all('tr', tip).map(row => all('td', row).map(td => td.textContent).join(' '));
    say.textContent = [tip.firstChild.textContent, ...lines].join('; ');
  }

  function showCell(svg, event) {
    const [left, top, width, height] = numbers(svg.dataset.cells), n = data.heat.classes;
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

  // ---- events

  const within = (event, selector) => (event.target instanceof Element ? event.target.closest(selector) : null);

  document.addEventListener('click', event => {
    const button = within(event, '[data-toggle]');
    if (button) toggle(button.dataset.toggle);
  });
  document.addEventListener('change', event => {
    if (event.target.name === 'x') state.x = event.target.value;
    else if (event.target.id === 'y') state.y = event.target.value;
    leave();
    apply();
  });
  document.addEventListener('toggle', event => {
    const key = event.target.dataset.key;
    if (event.target.isConnected && key) state.open[event.target.open ? 'add' : 'delete'](key);
  }, true);
  for (const kind of ['pointermove', 'pointerdown'])
    document.addEventListener(kind, event => {
      const plot = within(event, '.plot'), map = within(event, '#heatmap');
      if (map) return showCell(map, event);
      if (!plot) return leave();
      const box = plot.firstElementChild.getBoundingClientRect(), g = geometry(plot);
      show(plot, g.value((event.clientX - box.left) / box.width * g.svg.viewBox.baseVal.width), event.clientY);
    });
  document.addEventListener('pointerover', event => {
    const entry = within(event, '[aria-pressed=true]');
    singleOut(entry && event.pointerType === 'mouse' ? +entry.dataset.toggle : null);
  });
  document.documentElement.addEventListener('pointerleave', leave);
  document.addEventListener('focusout', event => {
    if (event.target.id === tip.plot) leave();
  });
  document.addEventListener('keydown', event => {
    const plot = within(event, '.plot');
    if (event.key === 'Escape') leave();
    else if (plot && ['ArrowLeft', 'ArrowRight', 'Home', 'End'].includes(event.key)) {
      event.preventDefault();
      step(plot, event.key);
    }
  });

  // ---- live

  let seen = null, misses = 0;

  function swap(main) {
    const focused = document.activeElement && document.activeElement.id, y = scrollY;
    const scrolled = all('.scroll').map(e => e.scrollLeft);
    const shown = !tip.hidden && tip.plot, at = tip.at, top = tip.style.top;
    leave();
    document.title = main.ownerDocument.title;
    document.getElementById('report').replaceWith(document.adoptNode(main));
    apply();
    all('.scroll').forEach((e, i) => { e.scrollLeft = scrolled[i] || 0; });
    if (focused && document.getElementById(focused)) document.getElementById(focused).focus({ preventScroll: true });
    scrollTo(scrollX, y);
    const plot = shown && document.getElementById(shown);
    if (plot) {
      show(plot, at);
      tip.style.top = top;
    }
  }

  function ended() {
    const status = document.getElementById('status');
    status.classList.remove('running');
    status.textContent = 'The comparison has ended; this is its last state seen here.';
    document.getElementById('report').dataset.live = 0;
  }

  async function poll() {
    try {
      const answer = await fetch(location.href, { cache: 'no-store' });
      const text = answer.ok ? await answer.text() : '';
      if (text !== seen) {
        const page = new DOMParser().parseFromString(text, 'text/html'), main = page.getElementById('report');
        if (!main) throw new Error('not a report');
        swap(main);
        seen = text;
      }
      misses = 0;
    } catch (error) {
      misses++;
    }
    if (misses >= 2) ended();
    if (document.getElementById('report').dataset.live === '1') setTimeout(poll, 2000);
  }

  apply();
  if (document.getElementById('report').dataset.live === '1') setTimeout(poll, 2000);
})();
