// Draws the panels of a suite page from P: element id -> {data, layout, labels} (see suite_plotly.py).
"use strict";
const FONT = getComputedStyle(document.body).fontFamily;

// Names at the ends of the curves need room on the right; where a panel is narrow, the legend above it does that job.
function shaped(plot, width) {
  const layout = { ...plot.layout, font: { ...plot.layout.font, family: FONT }, paper_bgcolor: "#fff", plot_bgcolor: "#fff" };
  layout.margin = { ...plot.layout.margin };
  const wide = plot.labels && matchMedia("(min-width: 901px)").matches;
  const ends = plot.layout.annotations.filter((a) => a.name === "end");
  if (wide) layout.margin.r = Math.min(0.42 * width, 16 + 6.4 * Math.max(...ends.map((a) => a.text.length)));
  else layout.annotations = plot.layout.annotations.filter((a) => a.name !== "end");
  return layout;
}

function draw(id) {
  const where = document.getElementById(id);
  Plotly.react(where, P[id].data, shaped(P[id], where.clientWidth), { responsive: true, displayModeBar: false });
}

// Panels are drawn when they come near the screen: a page of many drives has a hundred of them.
const seen = new Set();
const watch = new IntersectionObserver((entries) => {
  for (const e of entries) if (e.isIntersecting && !seen.has(e.target.id)) { seen.add(e.target.id); draw(e.target.id); watch.unobserve(e.target); }
}, { rootMargin: "1200px" });
for (const id of Object.keys(P)) {
  const where = document.getElementById(id);
  where.style.minHeight = P[id].layout.height + "px";
  watch.observe(where);
}
matchMedia("(min-width: 901px)").addEventListener("change", () => seen.forEach(draw));
addEventListener("beforeprint", () => Object.keys(P).forEach(draw));
