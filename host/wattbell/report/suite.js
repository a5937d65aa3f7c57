// Draws the panels of a suite page from P: element id -> {data, layout, labels} (see suite_plotly.py).
"use strict";
const FONT = getComputedStyle(document.body).fontFamily;

// Names at the ends of the curves need room on the right; where a panel is narrow, the legend above it does that job.
function shaped(plot, width) {
  const layout = { ...plot.layout, font: { ...plot.layout.font, family: FONT }, paper_bgcolor: "#fff", plot_bgcolor: "#fff" };
  layout.margin = { ...plot.layout.margin };
  const wide = plot.labels && matchMedia("(min-width: 901px)").matches;
  const ends = plot.layout.annotations.filter((a) => a.name === "end");
  if (wide) layout.margin.r = Math.min(0.5 * width, 18 + 6.9 * Math.max(...ends.map((a) => a.text.length)));
  else layout.annotations = plot.layout.annotations.filter((a) => a.name !== "end");
  return layout;
}

function draw(id) {
  const where = document.getElementById(id);
  Plotly.react(where, P[id].data, shaped(P[id], where.clientWidth), { responsive: true, displayModeBar: false });
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
