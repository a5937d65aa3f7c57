// Draws the report's plots from D (see html.py). Envelopes are kept fine; each zoom shows them in at most POINTS bins.
"use strict";
const POINTS = 1400;
const INK = "#1c2530", MUTED = "#66707c", GRID = "#e8ebee";
const FONT = { family: getComputedStyle(document.body).fontFamily, size: 12, color: INK };

function floats(text) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}
for (const e of Object.values(D.envelopes)) for (const k of ["low", "mean", "high"]) e[k] = floats(e[k]);

// Bins of an envelope between two times, merged to at most POINTS: minimum of minima, mean of means, maximum of maxima.
function visible(e, a, b) {
  const first = Math.max(0, Math.floor((a - e.t0) / e.dt)), last = Math.min(e.mean.length, Math.ceil((b - e.t0) / e.dt) + 1);
  const k = Math.max(1, Math.ceil((last - first) / POINTS));
  const out = { t: [], low: [], mean: [], high: [], half: k * e.dt / 2 };
  for (let i = first - first % k; i < last; i += k) {
    let low = Infinity, high = -Infinity, sum = 0, n = 0;
    const end = Math.min(i + k, e.mean.length);
    for (let j = i; j < end; j++) {
      if (Number.isNaN(e.mean[j])) continue;
      if (e.low[j] < low) low = e.low[j];
      if (e.high[j] > high) high = e.high[j];
      sum += e.mean[j]; n++;
    }
    out.t.push(e.t0 + (i + (end - i) / 2) * e.dt);
    out.low.push(n ? low : null); out.high.push(n ? high : null); out.mean.push(n ? sum / n : null);
  }
  return out;
}

const config = { responsive: true, displayModeBar: false };

// Ticks of a log axis between two positive values, three to nine where that can be: powers of ten; 1, 2, 5; finer; within a part of a
// decade even steps.
function logTicks(low, high) {
  const even = 10 ** Math.floor(Math.log10((high - low) / 3 || low / 10));
  for (const mantissas of [[1], [1, 2, 5], [1, 1.5, 2, 3, 5, 7]]) {
    const out = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
      for (const m of mantissas) { const v = +`${m}e${e}`; if (v >= low * 0.999 && v <= high * 1.001) out.push(v); }
    if (out.length >= 3) return out.length > 9 ? out.filter((v, i) => i % Math.ceil(out.length / 9) === 0) : out;
  }
  for (const step of [1, 2, 5].map((m) => m * even)) {
    const first = Math.ceil(low / step - 1e-9), n = Math.floor(high / step + 1e-9) - first + 1;
    if (n <= 9) return Array.from({ length: n }, (_, i) => +((first + i) * step).toPrecision(12));
  }
  return [];
}
function seconds(v) {
  for (const [scale, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]])
    if (v >= scale * 0.999) return +(v / scale).toPrecision(3) + " " + unit;
  return String(v);
}

// Outline of a band as closed polygons, one for each run of bins without a hole, each bin at its full width.
function outline(v, half) {
  const x = [], y = [];
  let start = -1;
  for (let i = 0; i <= v.t.length; i++) {
    const hole = i === v.t.length || v.low[i] === null;
    if (!hole && start < 0) start = i;
    if (hole && start >= 0) {
      for (let j = start; j < i; j++) { x.push(v.t[j] - half, v.t[j] + half); y.push(v.high[j], v.high[j]); }
      for (let j = i - 1; j >= start; j--) { x.push(v.t[j] + half, v.t[j] - half); y.push(v.low[j], v.low[j]); }
      x.push(null); y.push(null);
      start = -1;
    }
  }
  return { x, y };
}

function show(v, unit) {
  return unit === "s" ? seconds(+v.toPrecision(4)) : `${+v.toPrecision(4)} ${unit}`;
}

function rgba(hex, alpha) {
  const v = parseInt(hex.slice(1), 16);
  return `rgba(${v >> 16},${v >> 8 & 255},${v & 255},${alpha})`;
}

function timelineTraces(a, b) {
  const traces = [];
  for (const row of D.rows) {
    for (const s of row.series) {
      const v = visible(D.envelopes[s.key], a, b), base = { x: v.t, yaxis: row.axis, xaxis: "x", showlegend: false };
      if (s.band) {
        traces.push({ ...base, ...outline(v, v.half), mode: "lines", line: { width: 0 }, fill: "toself",
          fillcolor: rgba(s.colour, s.points ? 0.3 : 0.22), hoverinfo: "skip" });
      }
      const text = v.mean.map((m, i) => m === null ? "" : s.band ? ` (${show(v.low[i], s.unit)} to ${show(v.high[i], s.unit)})` : "");
      const drawn = s.points ? { mode: "markers", marker: { size: 2.6, color: s.colour } }
        : { mode: "lines", line: { width: 1.1, color: s.colour } };
      traces.push({ ...base, ...drawn, y: v.mean, name: s.name, showlegend: s.legend, text: v.mean.map((m, i) =>
        m === null ? "" : `${row.title.split(",")[0]} ${s.name} ${show(m, s.unit)}${text[i]}`), hovertemplate: "%{text}<extra></extra>" });
    }
  }
  return traces;
}

function timeline() {
  const div = document.getElementById("timeline");
  if (!div) return;
  const n = D.rows.length, gap = 0.075, total = D.rows.reduce((s, r) => s + r.weight, 0), free = 1 - gap * (n - 1);
  const layout = {
    height: 150 * total + 60, margin: { l: 58, r: 10, t: 42, b: 40 }, font: FONT, hovermode: "x unified", dragmode: "zoom",
    plot_bgcolor: "#fff", paper_bgcolor: "#fff", hoverlabel: { bgcolor: "#fff", bordercolor: "#cfd5db", font: { size: 12 } },
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1, yanchor: "bottom", font: { size: 12 }, bgcolor: "rgba(0,0,0,0)" },
    xaxis: { range: [0, D.duration], title: { text: "time, s", font: { color: MUTED } }, showgrid: false, zeroline: false,
      linecolor: "#b6bdc5", showline: true, anchor: D.rows[n - 1].axis, hoverformat: ".6~f", ticksuffix: "", showspikes: true,
      spikemode: "across", spikethickness: 1, spikecolor: "#b6bdc5", spikedash: "solid" },
    shapes: [], annotations: [],
  };
  let top = 1;
  D.rows.forEach((row) => {
    const height = free * row.weight / total, name = row.axis === "y" ? "yaxis" : "yaxis" + row.axis.slice(1);
    if (row.series.some((s) => s.legend)) layout.legend.y = top;
    layout.annotations.push({ x: 0, y: top, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", text: `<b>${row.title}</b>`,
      showarrow: false, font: { size: 12, color: INK } });
    layout[name] = { domain: [Math.max(0, top - height), top],
      gridcolor: GRID, zeroline: false, type: row.log ? "log" : "linear", rangemode: row.log ? "normal" : "tozero",
      tickformat: row.tickformat || "", ticksuffix: row.suffix || "", fixedrange: true, nticks: 6,
      exponentformat: "SI", automargin: false };
    top -= height + gap;
  });
  D.phases.forEach((p, i) => {
    if (i % 2 === 0) layout.shapes.push({ type: "rect", xref: "x", yref: "paper", x0: p.first, x1: p.last, y0: 0, y1: 1,
      fillcolor: "#f3f5f8", line: { width: 0 }, layer: "below" });
    if (p.last - p.first > 0.012 * D.duration) layout.annotations.push({ x: (p.first + p.last) / 2, y: 1, xref: "x", yref: "paper",
      text: String(p.number), showarrow: false, yanchor: "bottom", yshift: 17, font: { size: 11, color: MUTED } });
  });
  for (const [a, b] of D.gaps) layout.shapes.push({ type: "rect", xref: "x", yref: "paper", x0: a, x1: b, y0: 0, y1: 1,
    fillcolor: "rgba(179,38,30,.13)", line: { width: 1, color: "rgba(179,38,30,.5)" }, layer: "below" });
  const marks = layout.annotations;
  // What depends on the stretch that is shown: ticks of log axes, and a word where there is nothing to draw.
  function fit(a, b) {
    layout.annotations = [...marks];
    for (const row of D.rows) {
      const of = layout[row.axis === "y" ? "yaxis" : "yaxis" + row.axis.slice(1)], values = [];
      for (const s of row.series) {
        const v = visible(D.envelopes[s.key], a, b);
        v.t.forEach((t, i) => { if (v.mean[i] !== null && t + v.half > a && t - v.half < b) values.push(v.low[i], v.high[i]); });
      }
      if (!values.length) layout.annotations.push({ x: 0.5, xref: "paper", y: (of.domain[0] + of.domain[1]) / 2, yref: "paper", showarrow: false,
        text: `${row.title.split(",")[0]}: nothing in this stretch`, font: { size: 12, color: MUTED } });
      of.showticklabels = values.length > 0;
      if (!row.log || !values.length) continue;
      const low = values.reduce((x, y) => Math.min(x, y)) / 1.08, high = values.reduce((x, y) => Math.max(x, y)) * 1.08;
      of.range = [Math.log10(low), Math.log10(high)];
      of.tickvals = logTicks(low, high);
      of.ticktext = of.tickvals.map(seconds);
    }
  }
  fit(0, D.duration);
  Plotly.newPlot(div, timelineTraces(0, D.duration), layout, config);
  const chips = [...document.querySelectorAll("#phases button")];
  let busy = false;
  function show(a, b) {
    busy = true;
    layout.xaxis.range = [a, b];
    fit(a, b);
    Plotly.react(div, timelineTraces(a, b), layout, config).then(() => { busy = false; });
  }
  div.on("plotly_relayout", (e) => {
    if (busy) return;
    if (e["xaxis.autorange"]) { chips.forEach((c, i) => c.classList.toggle("on", i === 0)); show(0, D.duration); }
    else if (e["xaxis.range[0]"] !== undefined) {
      chips.forEach((c) => c.classList.remove("on"));
      show(+e["xaxis.range[0]"], +e["xaxis.range[1]"]);
    }
  });
  for (const c of chips) c.addEventListener("click", () => {
    const a = +c.dataset.a, b = +c.dataset.b, pad = a === 0 && b === D.duration ? 0 : 0.02 * (b - a);
    show(a - pad, b + pad);
    chips.forEach((x) => x.classList.toggle("on", x === c));
  });
  const log = document.getElementById("log-power");
  if (log) log.addEventListener("click", () => {
    const on = log.classList.toggle("on");
    layout.yaxis.type = on ? "log" : "linear";
    layout.yaxis.dtick = on ? 1 : undefined;
    show(...layout.xaxis.range);
  });
}

const small = { font: FONT, plot_bgcolor: "#fff", paper_bgcolor: "#fff", margin: { l: 62, r: 14, t: 34, b: 44 }, height: 350,
  legend: { orientation: "h", font: { size: 12 }, x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" } };
const axis = (title, more) => ({ title: { text: title, font: { color: MUTED, size: 12 }, standoff: 8 }, gridcolor: GRID, zeroline: false,
  linecolor: "#b6bdc5", ...more });

const tall = small.height + 12 * Math.max(0, D.curves.length - 4);

function distribution() {
  const div = document.getElementById("distribution");
  if (!div) return;
  const nines = (s) => -Math.log10(1 - s), ticks = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
  const top = Math.max(...D.curves.map((c) => nines(c.share[c.share.length - 1])));
  const ticksX = logTicks(Math.min(...D.curves.map((c) => c.latency[0])), Math.max(...D.curves.map((c) => c.latency[c.latency.length - 1])));
  Plotly.newPlot(div, D.curves.map((c) => ({ x: c.latency, y: c.share.map(nines), customdata: c.share.map((s) => (100 * s).toPrecision(6)),
    mode: "lines", name: c.name, line: { color: c.colour, width: 1.8, dash: c.dashed ? "dash" : "solid" }, hovertemplate: `${c.name}: %{customdata} % ≤ %{x:.4~s}s<extra></extra>` })),
  { ...small, height: tall, hovermode: "closest", showlegend: D.curves.length > 1,
    xaxis: axis(D.latencyFrom + " → CQE", { type: "log", tickvals: ticksX, ticktext: ticksX.map(seconds), tickangle: 0 }),
    yaxis: axis("", { range: [0, top + 0.15], tickvals: ticks.map(nines), ticktext: ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"] }) }, config);
}

function efficiency() {
  const div = document.getElementById("efficiency");
  if (!div) return;
  const watts = D.points.map((p) => p.watt), rates = D.points.map((p) => p.rate);
  const [w0, w1, r0, r1] = [Math.min(...watts), Math.max(...watts), Math.min(...rates), Math.max(...rates)];
  const pad = 0.22 * (w1 - w0) || 0.5 * w1, logarithmic = r1 / r0 > 12, f = logarithmic ? Math.log10 : (v) => v;
  const room = 0.14 * (f(r1) - f(r0)) || 0.3 * Math.abs(f(r1)) || 1, places = ["top center", "bottom center", "middle right", "middle left"];
  const named = D.points.length <= 6; // more would overlap: the colours are those of the legend beside
  const position = D.points.map((p, i) => places[D.points.slice(0, i).filter((q) => Math.abs(q.watt - p.watt) < pad
    && Math.abs(f(q.rate) - f(p.rate)) < room).length % places.length]);
  Plotly.newPlot(div, D.points.map((p, i) => ({ x: [p.watt], y: [p.rate], mode: named ? "markers+text" : "markers", text: [p.name], textposition: position[i],
    textfont: { size: 12, color: INK }, marker: { color: p.colour, size: 10, symbol: p.dashed ? "circle-open" : "circle", line: { width: 2 } }, cliponaxis: false,
    hovertemplate: `${p.name}: %{y:.4~g} MB/s at %{x:.4~g} W = ${(p.rate / p.watt).toPrecision(4)} MB/s/W<extra></extra>` })),
  { ...small, height: tall, showlegend: false, hovermode: "closest", xaxis: axis("mean power, W", { range: [w0 - pad, w1 + pad] }),
    yaxis: axis("MB/s", logarithmic ? { type: "log", range: [f(r0) - room, f(r1) + room], tickvals: logTicks(r0 / 2, r1 * 2),
      ticktext: logTicks(r0 / 2, r1 * 2).map(String) } : { range: [Math.max(0, r0 - room), r1 + room] }) }, config);
}

function details() {
  D.details.forEach((d, i) => {
    const div = document.getElementById("detail-" + i);
    if (!div) return;
    const scale = Math.max(...d.t.map(Math.abs)) < 1 ? 1e3 : 1, unit = scale === 1e3 ? "ms" : "s";
    const shapes = [], annotations = [];
    Object.entries(d.marks).forEach(([text, t], j) => {
      shapes.push({ type: "line", x0: t * scale, x1: t * scale, y0: 0, y1: 1, yref: "paper", line: { color: MUTED, width: 1, dash: "dot" } });
      if (text.trim()) annotations.push({ x: t * scale, y: 1 - 0.09 * (j % 3), yref: "paper", text, showarrow: false, xanchor: "left", xshift: 3,
        yanchor: "top", font: { size: 11, color: MUTED }, bgcolor: "rgba(255,255,255,.75)" });
    });
    Plotly.newPlot(div, [{ x: d.t.map((t) => t * scale), y: d.power, mode: "lines", line: { color: "#c2571a", width: 1.2, shape: "hvh" },
      hovertemplate: `%{x:.5~g} ${unit}: %{y:.4~g} W<extra></extra>` }],
    { ...small, height: 250, margin: { ...small.margin, t: 10 }, shapes, annotations, hovermode: "closest", xaxis: axis("time, " + unit, { showgrid: false }),
      yaxis: axis("power, W", { range: [0, 1.18 * Math.max(...d.power)] }) }, config);
  });
}

timeline(); distribution(); efficiency(); details();
