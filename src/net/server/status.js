// Polls v1/status and shows it. Strings from clients (names, reasons) become text, never markup.
"use strict";
(function () {
  const EVERY = 2000, SHOWN = 200;
  const $ = (id) => document.getElementById(id);
  let newest = null, heardAt = 0;

  function el(tag, text, cls) {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    return e;
  }
  function svg(tag, attributes, text) {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const name in attributes) e.setAttribute(name, attributes[name]);
    if (text !== undefined) e.textContent = text;
    return e;
  }
  const fill = (id, children) => $(id).replaceChildren(...children);

  // ---- numbers
  const count = (n) => Math.round(n).toLocaleString("en");
  function time(s) {
    if (s === null || s === undefined) return "–";
    if (s < 10) return s.toFixed(s < 1 ? 2 : 1) + " s";
    if (s < 120) return Math.round(s) + " s";
    if (s < 7200) return Math.round(s / 60) + " min";
    return s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
  }
  function bytes(n) {
    const units = ["bytes", "kB", "MB", "GB", "TB"];
    let k = 0;
    while (n >= 1000 && k < units.length - 1) n /= 1000, k++;
    return (k && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + units[k];
  }
  function value(v) {
    if (v === null || v === undefined) return "–";
    const a = Math.abs(v);
    return a && (a < 1e-3 || a >= 1e6) ? v.toExponential(2) : String(Number(v.toPrecision(4)));
  }
  const plural = (n, what) => count(n) + " " + what + (n === 1 ? "" : "s");

  // ---- the top
  function fact(name, text, small) {
    const d = el("dd", text);
    if (small) d.append(el("small", small));
    return [el("dt", name), d];
  }
  function wrap(list) {
    return list.map((pair) => { const d = el("div"); d.append(...pair); return d; });
  }
  function head(s) {
    const states = { joining: "waiting for clients", running: "running", draining: "stopping after this round", over: "over" };
    $("state").textContent = states[s.state] || s.state;
    $("state").className = s.state;
    const under = s.rounds && s.state !== "over" && s.round < s.rounds;
    $("title").textContent = s.state === "joining" ? count(s.clients - s.missing) + " of " + plural(s.clients, "client") + " joined"
      : s.rounds ? "Round " + count(under ? s.round + 1 : s.round) + " of " + count(s.rounds) : "Beginning";
    document.title = $("title").textContent + " · fedloom";
    $("what").textContent = s.method + ", " + s.model;
    const p = $("progress");
    p.max = s.state === "joining" ? Math.max(1, s.clients) : Math.max(1, s.rounds);
    p.value = s.state === "joining" ? s.clients - s.missing : s.round;
    const wrong = s.error || (s.checkpoint && s.checkpoint.error);
    $("error").hidden = !wrong;
    $("error").textContent = wrong || "";
  }
  function facts(s) {
    const t = s.round_seconds, c = s.checkpoint, left = s.rounds - s.round;
    const list = [fact("Clients", count(s.clients - s.missing), s.missing ? count(s.missing) + " missing" : "all have joined"),
      fact("Awaited", count(s.awaited), "answers")];
    if (t.mean !== null) {
      list.push(fact("Round", time(t.mean), "on average; the last " + time(t.last)));
      if (left > 0 && s.state === "running") list.push(fact("Left", time(left * t.mean), plural(left, "round")));
    }
    if (c.round !== null)
      list.push(fact("Checkpoint", "round " + count(c.round), time(Math.max(0, Date.now() / 1000 - c.time)) + " ago, " + bytes(c.bytes)));
    list.push(fact("Received", bytes(s.counters.bytes_in), "sent " + bytes(s.counters.bytes_out)));
    list.push(fact("Serving for", time(s.seconds), plural(s.counters.connections, "connection")));
    fill("facts", wrap(list));
  }

  // ---- curves
  function nice(step) { // 1, 2 or 5 times a power of ten, not smaller
    const ten = Math.pow(10, Math.floor(Math.log10(step)));
    return ten * (step <= ten ? 1 : step <= 2 * ten ? 2 : step <= 5 * ten ? 5 : 10);
  }
  const W = 360, H = 150, LEFT = 48, RIGHT = 8, TOP = 8, BOTTOM = 20;
  function chart(title, points) {
    const f = el("figure"), cap = el("figcaption");
    cap.append(el("span", title), el("b", value(points[points.length - 1][1])));
    f.append(cap);
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
    const x0 = Math.min(...xs), x1 = Math.max(...xs, x0 + 1);
    let y0 = Math.min(...ys), y1 = Math.max(...ys);
    if (y0 === y1) { const d = Math.abs(y0) * 0.1 || 1; y0 -= d; y1 += d; }
    const step = nice((y1 - y0) / 3);
    y0 = Math.floor(y0 / step + 1e-9) * step;
    y1 = Math.ceil(y1 / step - 1e-9) * step;
    const X = (x) => LEFT + (x - x0) / (x1 - x0) * (W - LEFT - RIGHT), Y = (y) => H - BOTTOM - (y - y0) / (y1 - y0) * (H - TOP - BOTTOM);
    const g = svg("svg", { viewBox: "0 0 " + W + " " + H, role: "img" });
    g.append(svg("title", {}, title + ": " + value(points[0][1]) + " at round " + xs[0] + ", " + value(ys[ys.length - 1]) + " at round " + xs[xs.length - 1]));
    for (let k = 0; k <= (y1 - y0) / step + 0.5; k++) {
      const y = y0 + k * step;
      g.append(svg("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: Y(y), y2: Y(y) }));
      g.append(svg("text", { x: LEFT - 6, y: Y(y) + 4, "text-anchor": "end" }, value(y)));
    }
    g.append(svg("text", { x: LEFT, y: H - 4 }, count(x0)), svg("text", { x: W - RIGHT, y: H - 4, "text-anchor": "end" }, count(x1)));
    g.append(svg("polyline", { class: "line", points: points.map((p) => X(p[0]).toFixed(1) + "," + Y(p[1]).toFixed(1)).join(" ") }));
    g.append(svg("circle", { class: "dot", r: 3, cx: X(xs[xs.length - 1]), cy: Y(ys[ys.length - 1]) }));
    f.append(g);
    return f;
  }
  function curves(m) {
    const list = [];
    for (let k = 1; k < m.columns.length; k++) {
      const points = m.rows.filter((r) => r[k] !== null).map((r) => [r[0], r[k]]);
      if (points.length) list.push(chart(m.titles[k], points));
    }
    fill("charts", list);
    $("curves").hidden = !list.length;
  }

  // ---- clients
  const who = (p) => p.name || (p.client === null ? "unnamed client" : "client " + p.client);
  function stragglers(list) {
    fill("stragglers", list.map((p) => {
      const li = el("li");
      li.append(el("span", who(p)), el("span", time(p.seconds) + (p.state === "working" ? "" : ", " + p.state)));
      return li;
    }));
    $("late").hidden = !list.length;
  }
  function number(n) { return el("td", count(n), n ? "n some" : "n zero"); }
  function row(p) {
    const r = el("tr");
    const state = p.asked !== null && p.state !== "waiting" ? p.state + ", " + time(p.asked) : p.state;
    r.append(el("td", p.client, "n"), el("td", p.name || "–", "name"), el("td", state, p.state), el("td", p.samples ? count(p.samples) : "–", "n"),
      el("td", p.heard === null ? "–" : p.heard < 1 ? "now" : time(p.heard) + " ago", "n"), el("td", time(p.took), "n"), el("td", time(p.longest), "n"),
      el("td", count(p.answers), "n"), number(p.dropped), number(p.refused), number(p.rejected));
    return r;
  }
  function people(s) {
    const text = $("filter").value.trim().toLowerCase(), of = {};
    for (const p of s.people) of[p.state] = (of[p.state] || 0) + 1;
    fill("counts", Object.keys(of).sort().map((k) => el("span", count(of[k]) + " " + k, k)));
    const found = s.people.filter((p) => !text || who(p).toLowerCase().includes(text) || p.state.startsWith(text) || String(p.client) === text);
    fill("people", found.slice(0, SHOWN).map(row));
    const rest = found.length - SHOWN, unlisted = s.clients - s.people.length;
    $("more").textContent = (!found.length && s.people.length ? "No client has this name. " : "") + (rest > 0 ? count(rest) + " more are not shown: name some of them above. " : "") +
      (unlisted > 0 ? "The server lists the first " + count(s.people.length) + " of " + count(s.clients) + " clients." : "");
  }
  function mishaps(list) {
    fill("mishaps", list.map((m) => {
      const r = el("tr"), when = new Date(m.time), t = el("td", when.toLocaleTimeString([], { hour12: false }), "when");
      t.title = m.time;
      r.append(t, el("td", who(m), "name"), el("td", m.what), el("td", count(m.times) + "×", "n"), el("td", m.why, "why"));
      return r;
    }));
    $("trouble").hidden = !list.length;
  }

  function show(s) {
    head(s);
    facts(s);
    curves(s.metrics);
    stragglers(s.stragglers);
    mishaps(s.mishaps);
    people(s);
    fill("counters", wrap(Object.keys(s.counters).map((k) => fact(k.replace(/_/g, " "), count(s.counters[k])))));
    $("foot").textContent = "fedloom " + s.fedloom + (s.run ? " · run " + s.run.slice(0, 16) : "");
  }

  // ---- polling
  async function refresh() {
    try {
      const answer = await fetch("v1/status", { cache: "no-store" });
      if (!answer.ok) throw new Error("the server answers " + answer.status);
      newest = await answer.json();
      heardAt = Date.now();
      show(newest);
      $("stale").hidden = true;
    } catch (e) {
      $("stale").textContent = heardAt ? "no answer for " + time((Date.now() - heardAt) / 1000) : "no answer";
      $("stale").hidden = false;
    }
    setTimeout(refresh, document.hidden ? 5 * EVERY : EVERY);
  }
  $("filter").addEventListener("input", () => { if (newest) people(newest); });
  refresh();
})();
