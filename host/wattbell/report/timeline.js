// Draws the time line of a capture from D (see interactive.py); plots.js, before it, draws the rest. Each zoom shows at most POINTS bins
// of an envelope.
const POINTS = 1400;
const INK = "#1c2530", MUTED = "#66707c", GRID = "#e8ebee";
const FONT = { family: FAMILY, size: 12, color: INK };

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
      gridcolor: GRID, zeroline: false, type: row.log ? "log" : "linear", rangemode: row.log || row.near ? "normal" : "tozero",
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

timeline();
