// During the comparison, replaces <main> by the newest one and keeps the reader's choices. Then starts the page.

let seen = null, misses = 0;

function swap(main) {
  const focused = document.activeElement && document.activeElement.id, y = scrollY;
  const scrolled = all('.scroll').map(e => e.scrollLeft);
  const shown = !tip.hidden && tip.plot, at = tip.at, top = tip.style.top;
  drag = null;
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

document.documentElement.classList.add('js');
apply();
if (document.getElementById('report').dataset.live === '1') setTimeout(poll, 2000);
