// Draws the panels of a page from P: element id -> {data, layout, labels} (see interactive.py).
"use strict";
const FAMILY = getComputedStyle(document.body).fontFamily;
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

// Names at the ends of the curves need room on the right; where a panel is narrow, the legend above it does that job.
function shaped(plot, width) {
  const layout = { ...plot.layout, font: { ...plot.layout.font, family: FAMILY }, paper_bgcolor: "#fff", plot_bgcolor: "#fff" };
  layout.margin = { ...plot.layout.margin };
  for (const name of ["xaxis", "yaxis"]) {
    const axis = layout[name];
    if (axis.type !== "log" || axis.ticksuffix !== "s" || !axis.range) continue;
    const tickvals = logTicks(...axis.range.map((v) => 10 ** v));
    layout[name] = { ...axis, tickmode: "array", tickangle: 0, tickvals, ticktext: tickvals.map(seconds) };
  }
  const wide = plot.labels && matchMedia("(min-width: 901px)").matches;
  const ends = plot.layout.annotations.filter((a) => a.name === "end");
  if (wide) layout.margin.r = Math.min(0.5 * width, 18 + 6.9 * Math.max(...ends.map((a) => a.text.length)));
  else layout.annotations = plot.layout.annotations.filter((a) => a.name !== "end");
  return layout;
}

function draw(id) {
  const where = document.getElementById(id);
  Plotly.react(where, P[id].data, shaped(P[id], where.clientWidth), config);
}

// One panel a turn, so that the page can be read and scrolled while a hundred of them are drawn.
const waiting = Object.keys(P);
for (const id of waiting) document.getElementById(id).style.minHeight = P[id].layout.height + "px";
(function next() {
  if (!waiting.length) return;
  draw(waiting.shift());
  setTimeout(next, 0);
})();
matchMedia("(min-width: 901px)").addEventListener("change", () => Object.keys(P).forEach(draw));
