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
  const out = { t: [], low: [], mean: [], high: [] };
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

const config = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

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
        traces.push({ ...base, y: v.low, mode: "lines", line: { width: 0 }, hoverinfo: "skip" });
        traces.push({ ...base, y: v.high, mode: "lines", line: { width: 0 }, fill: "tonexty", fillcolor: rgba(s.colour, 0.2),
          hovertemplate: `max %{y:.4~g} ${s.unit}<extra></extra>` });
      }
      traces.push({ ...base, y: v.mean, mode: "lines", line: { width: 1.1, color: s.colour }, name: s.name,
        showlegend: s.legend, hovertemplate: `${s.name} %{y:.5~g} ${s.unit}<extra></extra>` });
    }
  }
  return traces;
}

function timeline() {
  const div = document.getElementById("timeline");
  if (!div) return;
  const n = D.rows.length, gap = 0.045, total = D.rows.reduce((s, r) => s + r.weight, 0), free = 1 - gap * (n - 1);
  const layout = {
    height: 150 * total + 60, margin: { l: 66, r: 14, t: 26, b: 40 }, font: FONT, hovermode: "x unified", dragmode: "zoom",
    plot_bgcolor: "#fff", paper_bgcolor: "#fff", hoverlabel: { bgcolor: "#fff", bordercolor: "#cfd5db", font: { size: 12 } },
    legend: { orientation: "h", x: 1, xanchor: "right", y: 1.0, yanchor: "bottom", font: { size: 12 } },
    xaxis: { range: [0, D.duration], title: { text: "time, s", font: { color: MUTED } }, showgrid: false, zeroline: false,
      linecolor: "#b6bdc5", showline: true, anchor: D.rows[n - 1].axis, hoverformat: ".6~f", ticksuffix: "", showspikes: true,
      spikemode: "across", spikethickness: 1, spikecolor: "#b6bdc5", spikedash: "solid" },
    shapes: [], annotations: [],
  };
  let top = 1;
  D.rows.forEach((row) => {
    const height = free * row.weight / total, name = row.axis === "y" ? "yaxis" : "yaxis" + row.axis.slice(1);
    layout[name] = { domain: [Math.max(0, top - height), top], title: { text: row.title, font: { color: MUTED, size: 12 }, standoff: 6 },
      gridcolor: GRID, zeroline: false, type: row.log ? "log" : "linear", rangemode: row.log ? "normal" : "tozero",
      tickformat: row.tickformat || "", ticksuffix: row.suffix || "", fixedrange: true, nticks: 6, dtick: row.log ? 1 : undefined,
      exponentformat: "SI", automargin: false };
    top -= height + gap;
  });
  D.phases.forEach((p, i) => {
    if (i % 2 === 0) layout.shapes.push({ type: "rect", xref: "x", yref: "paper", x0: p.first, x1: p.last, y0: 0, y1: 1,
      fillcolor: "#f3f5f8", line: { width: 0 }, layer: "below" });
    if (p.last - p.first > 0.012 * D.duration) layout.annotations.push({ x: (p.first + p.last) / 2, y: 1, xref: "x", yref: "paper",
      text: String(p.number), showarrow: false, yanchor: "bottom", font: { size: 11, color: MUTED } });
  });
  Plotly.newPlot(div, timelineTraces(0, D.duration), layout, config);
  const chips = [...document.querySelectorAll("#phases button")];
  let busy = false;
  function show(a, b) {
    busy = true;
    for (const c of chips) c.classList.toggle("on", Math.abs(c.dataset.a - a) < 1e-9 && Math.abs(c.dataset.b - b) < 1e-9);
    layout.xaxis.range = [a, b];
    Plotly.react(div, timelineTraces(a, b), layout, config).then(() => { busy = false; });
  }
  div.on("plotly_relayout", (e) => {
    if (busy) return;
    if (e["xaxis.autorange"]) show(0, D.duration);
    else if (e["xaxis.range[0]"] !== undefined) show(+e["xaxis.range[0]"], +e["xaxis.range[1]"]);
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

const small = { font: FONT, plot_bgcolor: "#fff", paper_bgcolor: "#fff", margin: { l: 62, r: 14, t: 10, b: 44 }, height: 340,
  legend: { font: { size: 12 }, x: 1, xanchor: "right", y: 0.02, yanchor: "bottom", bgcolor: "rgba(255,255,255,.8)" } };
const axis = (title, more) => ({ title: { text: title, font: { color: MUTED, size: 12 }, standoff: 8 }, gridcolor: GRID, zeroline: false,
  linecolor: "#b6bdc5", ...more });

function distribution() {
  const div = document.getElementById("distribution");
  if (!div) return;
  const nines = (s) => -Math.log10(1 - s), ticks = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
  const top = Math.max(...D.curves.map((c) => nines(c.share[c.share.length - 1])));
  Plotly.newPlot(div, D.curves.map((c) => ({ x: c.latency, y: c.share.map(nines), customdata: c.share.map((s) => (100 * s).toPrecision(6)),
    mode: "lines", name: c.name, line: { color: c.colour, width: 1.8 }, hovertemplate: `${c.name}: %{customdata} % ≤ %{x:.4~s}s<extra></extra>` })),
  { ...small, hovermode: "closest", showlegend: D.curves.length > 1,
    xaxis: axis(D.latencyFrom + " → CQE", { type: "log", tickformat: "~s", ticksuffix: "s", dtick: "D2", tickangle: 0 }),
    yaxis: axis("", { range: [0, top + 0.15], tickvals: ticks.map(nines), ticktext: ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %"] }) }, config);
}

function efficiency() {
  const div = document.getElementById("efficiency");
  if (!div) return;
  Plotly.newPlot(div, D.points.map((p) => ({ x: [p.watt], y: [p.rate], mode: "markers+text", text: [p.name], textposition: "top center",
    textfont: { size: 12, color: INK }, marker: { color: p.colour, size: 10 }, cliponaxis: false,
    hovertemplate: `${p.name}: %{y:.4~g} MB/s at %{x:.4~g} W = ${(p.rate / p.watt).toPrecision(4)} MB/s/W<extra></extra>` })),
  { ...small, showlegend: false, hovermode: "closest", xaxis: axis("mean power, W", { rangemode: "normal" }),
    yaxis: axis("MB/s", { type: "log", dtick: 1, tickformat: "~r" }) }, config);
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
    { ...small, height: 250, shapes, annotations, hovermode: "closest", xaxis: axis("time, " + unit, { showgrid: false }),
      yaxis: axis("power, W", { rangemode: "tozero" }) }, config);
  });
}

timeline(); distribution(); efficiency(); details();
