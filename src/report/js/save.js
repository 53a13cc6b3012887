// Saves a chart as a file: the visible part as SVG, its numbers as CSV.

function save(name, type, text) {
  const link = document.createElement('a'), url = URL.createObjectURL(new Blob([text], { type }));
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// The file has no style sheet, so styles are written into the elements.
function styled(svg) {
  const copy = svg.cloneNode(true), from = [svg, ...all('*', svg)], to = [copy, ...all('*', copy)];
  const names = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-opacity',
    'stroke-linejoin', 'opacity', 'font-family', 'font-size'];
  from.forEach((e, i) => {
    const style = getComputedStyle(e);
    if (!['defs', 'clipPath', 'desc', 'rect'].includes(e.tagName))
      for (const n of names) to[i].setAttribute(n, style.getPropertyValue(n));
    to[i].removeAttribute('class');
  });
  return copy;
}

function svgText(plot) {
  leave(); // removes the crosshair
  const copy = styled(plot.querySelector('svg')), chart = data.charts[plot.id];
  copy.setAttribute('xmlns', svgNamespace);
  copy.setAttribute('width', plot.geometry.width);
  copy.setAttribute('height', plot.geometry.height);
  const ground = element('rect', { width: plot.geometry.width, height: plot.geometry.height,
    fill: getComputedStyle(document.body).backgroundColor });
  copy.prepend(element('title', {}, null, `${document.title}: ${chart.title} against ${axisOf(chart).title}`), ground);
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(copy) + '\n';
}

// As in results.csv: text that a spreadsheet would take for a formula gets an apostrophe.
function quoted(text) {
  return '"' + (/^[=+\-@\t\r]/.test(text) ? "'" : '') + text.replace(/"/g, '""') + '"';
}

// A row per series, point and seed, of all series, also of those switched off.
function csvText(name) {
  const chart = data.charts[name], lines = [`method,seed,${axisOf(chart).name},${name}`];
  for (const line of linesOf(name))
    for (const p of line.points)
      p.runs.forEach((v, i) => {
        const seed = chart.axis ? '' : data.series[line.k].seeds[i];
        if (v !== null) lines.push([quoted(data.series[line.k].label), seed, p.x, v].join(','));
      });
  return lines.join('\n') + '\n';
}
