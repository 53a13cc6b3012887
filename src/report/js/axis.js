// Scales and ticks, as in axis.c; made here because the reader may choose any range.

const superscripts = { '-': '\u207b', 0: '\u2070', 1: '\u00b9', 2: '\u00b2', 3: '\u00b3', 4: '\u2074', 5: '\u2075',
  6: '\u2076', 7: '\u2077', 8: '\u2078', 9: '\u2079' };
const power = e => '10' + String(e).replace(/[-0-9]/g, c => superscripts[c]);
const minus = text => text.replace('-', '\u2212');

// The number nearest to v that is 1, 2 or 5 times a power of ten.
function niceStep(v) {
  const base = Math.pow(10, Math.floor(Math.log10(v))), m = v / base;
  return (m < 1.4 ? 1 : m < 3.2 ? 2 : m < 7.1 ? 5 : 10) * base;
}

// The multiple in which a range reads best: MB, min, or a power of ten.
function unitFor(unit, size) {
  let found = [0, 1, ''];
  for (const row of data.units[unit] || []) if (size >= row[0]) found = row;
  if (found[2] || !(size > 0) || (size >= 1e-2 && size < 1e6)) return { divisor: found[1], name: found[2] };
  const e = Math.min(307, Math.floor(Math.log10(size) + 1e-9));
  return { divisor: Math.pow(10, e), name: 'in ' + power(e) };
}

// A constant gets room on both sides.
function widen(lo, hi, log) {
  const size = Math.max(Math.abs(lo), Math.abs(hi));
  if (hi - lo > 1e-9 * size && hi - lo > 1e-300) return [lo, hi];
  if (log) return [lo / 2, hi * 2];
  return size < 1e-300 ? [0, 1] : [lo - 0.1 * size, hi + 0.1 * size];
}

function evenTicks(axis, wanted, whole, roundOut) {
  const lo = axis.lo / axis.divisor, hi = axis.hi / axis.divisor;
  let step = niceStep((hi - lo) / wanted);
  if (whole && step < 1) step = 1;
  const first = roundOut ? Math.floor(lo / step + 1e-9) : Math.ceil(lo / step - 1e-9);
  const last = roundOut ? Math.ceil(hi / step - 1e-9) : Math.floor(hi / step + 1e-9);
  const decimals = Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
  if (roundOut) [axis.lo, axis.hi] = [first * step * axis.divisor, last * step * axis.divisor];
  for (let i = first; i <= last && axis.ticks.length < 100; i++)
    axis.ticks.push({ v: i * step * axis.divisor, label: minus((i * step).toFixed(decimals)) });
}

function powerTicks(axis, wanted) {
  const from = Math.floor(Math.log10(axis.lo)), to = Math.ceil(Math.log10(axis.hi));
  const stride = [1, 2, 3, 5, 10, 20, 50, 100, 200].find(s => (to - from) / s <= wanted + 2) || 200;
  const fine = Math.floor(Math.log10(axis.hi) + 1e-9) - Math.ceil(Math.log10(axis.lo) - 1e-9) < 2;
  const plain = axis.lo >= 1e-3 && axis.hi < 1e5;
  for (let e = from; e <= to; e++)
    for (let m = 1; m <= (stride > 1 ? 1 : 9); m++) {
      const v = m * Math.pow(10, e), labelled = fine ? [1, 2, 5].includes(m) : m === 1 && e % stride === 0;
      if (v < axis.lo || v > axis.hi) continue;
      const label = plain ? v.toFixed(Math.max(0, -e)) : (m > 1 ? m + '\u00b7' : '') + power(e);
      axis.ticks.push({ v, label: labelled ? label : '' });
    }
}

// The axis for values from lo to hi; `roundOut` extends its ends to ticks. place() is 0 at lo and 1 at hi.
function makeAxis(lo, hi, { log, unit, wanted, roundOut }) {
  [lo, hi] = widen(lo, hi, log);
  if (unit === 'share' && roundOut && lo < 1 && hi > 0) [lo, hi] = [Math.max(lo, log ? lo : 0), Math.min(hi, 1)];
  if (log && roundOut) {
    const room = Math.pow(hi / lo, 0.03);
    [lo, hi] = [lo / room, hi * room];
  }
  const powers = log && hi / lo >= 10, scale = log ? Math.log10 : v => v;
  const whole = powers && !data.units[unit], size = Math.max(Math.abs(lo), Math.abs(hi));
  const multiple = whole ? { divisor: 1, name: '' } : unitFor(unit, size);
  const axis = { lo, hi, log, ticks: [], divisor: multiple.divisor, unit: multiple.name };
  if (powers) powerTicks(axis, wanted);
  else evenTicks(axis, wanted, unit === 'count', roundOut && !log);
  axis.place = v => {
    if (log && !(v > axis.lo)) return 0;
    return Math.min(1, Math.max(0, (scale(v) - scale(axis.lo)) / (scale(axis.hi) - scale(axis.lo))));
  };
  return axis;
}
