// Draws the panels of a page from P (element id -> panel, see interactive.py) on uPlot's axes, and puts below every chart what it can be
// copied as. B: bar charts by id; C: conditions, as lines of text;
// O: that the figures were not measured, empty where they were.
"use strict";
const FAMILY = getComputedStyle(document.body).fontFamily, FONT = `12px ${FAMILY}`;
const DARK = matchMedia("(prefers-color-scheme: dark)");
const INKS = [{ ink: "#1c2530", muted: "#66707c", grid: "#e8ebee", spine: "#b6bdc5", paper: "#ffffff", phase: "#f3f5f8" },
  { ink: "#e4e8ec", muted: "#98a3af", grid: "#2a323b", spine: "#55606c", paper: "#161b21", phase: "#212933" }];
let printing = false;
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const penOf = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
// The element of a kind that an element lies in.
const around = (element, kind) => /** @type {HTMLElement} */ (element.closest(kind));
const dark = () => DARK.matches && !printing;
const inks = () => INKS[dark() ? 1 : 0];
const paint = (pair) => pair[dark() ? 1 : 0];

function rgba(hex, alpha) {
  const v = parseInt(hex.slice(1), 16);
  return `rgba(${v >> 16},${v >> 8 & 255},${v & 255},${alpha})`;
}

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
  return evenTicks(low, high, 9, even);
}
function evenTicks(low, high, most, least) {
  const power = least || 10 ** Math.floor(Math.log10((high - low) / most) || 0);
  for (const step of [1, 2, 5, 10, 20, 50].map((m) => m * power)) {
    const first = Math.ceil(low / step - 1e-9), n = Math.floor(high / step + 1e-9) - first + 1;
    if (n <= most) return Array.from({ length: Math.max(n, 0) }, (_, i) => +((first + i) * step).toPrecision(12));
  }
  return [];
}
function seconds(v) {
  for (const [scale, unit] of /** @type {[number, string][]} */ ([[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]))
    if (Math.abs(v) >= scale * 0.999) return +(v / scale).toPrecision(4) + " " + unit;
  return v === 0 ? "0" : String(v);
}
// A number with a narrow space between thousands, and k and M where that is shorter.
function plain(v) {
  const a = Math.abs(v);
  if (a >= 1e6) return +(v / 1e6).toPrecision(6) + " M";
  if (a >= 1e4) return +(v / 1e3).toPrecision(6) + " k";
  return String(+v.toPrecision(8)).replace("-", "−");
}

// uPlot's options for an axis of ours. `now` gives both ends; `px` the length in pixels.
function axisOptions(scale, axis, now, side) {
  const ink = inks();
  const text = (v) => { const named = (axis.ticks || []).find(([at]) => at === v); return named ? named[1] : axis.seconds ? seconds(v) : plain(v); };
  return {
    scale, side, font: FONT, labelFont: FONT, stroke: ink.ink, space: 40,
    grid: { show: side === 3 || axis.grid, stroke: ink.grid, width: 1 }, ticks: { stroke: ink.spine, width: 1, size: 4 },
    filter: (u, splits) => splits,
    splits: (u) => {
      const [low, high] = now(), most = Math.max(3, Math.floor((side === 3 ? u.bbox.height / 19 : u.bbox.width / 74) / devicePixelRatio));
      const inside = (axis.ticks || []).map(([v]) => v).filter((v) => v >= low * (1 - 1e-9) - 1e-12 && v <= high * (1 + 1e-9));
      if (inside.length) {
        const room = side === 3 ? 17 : 16 + 7 * Math.max(...inside.map((v) => text(v).length));
        const fit = Math.floor((side === 3 ? u.bbox.height : u.bbox.width) / devicePixelRatio / room);
        return inside.filter((v, i) => i % Math.max(1, Math.ceil(inside.length / fit)) === 0);
      }
      return axis.log ? logTicks(low, high) : evenTicks(low, high, Math.min(most, 9));
    },
    values: (u, splits) => splits.map(text),
    size: side === 3 ? (u, values) => Math.max(44, 14 + 7 * Math.max(0, ...(values || []).map((t) => t.length))) : side === 2 && axis.title ? 34 : 26,
    ...(side === 2 && axis.title ? { label: axis.title, labelSize: 18, size: 24 } : {}),
  };
}

// Whether the way from one spot to another has a part in the box of a text.
function crosses({ at, half }, from, to) {
  let low = 0, high = 1;
  for (const k of [0, 1]) {
    const d = to[k] - from[k], a = at[k] - half[k] - from[k], b = at[k] + half[k] - from[k];
    if (!d) { if (a >= 0 || b <= 0) return false; continue; }
    low = Math.max(low, Math.min(a / d, b / d)); high = Math.min(high, Math.max(a / d, b / d));
  }
  return low < high;
}

// One panel: uPlot has the axes, the zoom and the cursor; curves are drawn here, since x need not rise along them.
class PanelPlot {
  /** @type {uPlot} */
  plot;
  fit = 1; // texts shrink with a narrow panel
  constructor(id) {
    this.id = id; this.of = P[id]; this.where = byId(id);
    this.tip = document.createElement("div"); this.tip.className = "tip"; this.tip.hidden = true;
    this.reset(); this.draw();
  }
  reset() { this.x = this.of.x.span; this.y = this.of.y.span; }
  draw() {
    const { of, where } = this, width = where.clientWidth, ink = inks();
    const scale = (axis, name) => ({ time: false, distr: axis.log ? 3 : 1, range: () => this[name] });
    const wide = of.ends.length && matchMedia("(min-width: 901px)").matches && !printing;
    const right = wide ? Math.min(0.5 * width, 14 + 6.9 * Math.max(...of.ends.map((e) => e.text.length))) : 12;
    this.plot?.destroy();
    this.plot = new uPlot({
      width, height: of.height, padding: [of.unplaced ? 18 : 8, right, 0, 0], legend: { show: false },
      scales: { x: scale(of.x, "x"), y: scale(of.y, "y") },
      axes: [axisOptions("x", of.x, () => this.x, 2), axisOptions("y", of.y, () => this.y, 3)],
      series: [{}, { scale: "y", paths: () => null, points: { show: false } }],
      cursor: { drag: { x: true, y: true, uni: 24, setScale: false }, points: { show: false },
        bind: { dblclick: () => () => { this.reset(); this.redraw(); return null; } } },
      hooks: { draw: [(u) => this.paint(u, wide, ink)], setSelect: [(u) => this.zoom(u)], setCursor: [(u) => this.hover(u)] },
    }, [this.of.x.span, [null, null]], where);
    where.append(this.tip);
  }
  redraw() { this.plot.batch(() => { this.plot.setScale("x", { min: this.x[0], max: this.x[1] }); this.plot.setScale("y", { min: this.y[0], max: this.y[1] }); }); this.plot.redraw(); }
  zoom(u) {
    const { left, top, width, height } = u.select;
    if (width < 4 && height < 4) return;
    if (width >= 4) this.x = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    if (height >= 4 && height < u.over.clientHeight - 2) this.y = [u.posToVal(top + height, "y"), u.posToVal(top, "y")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.redraw();
  }
  paint(u, wide, ink) {
    const c = u.ctx, r = devicePixelRatio, { left, top, width, height } = u.bbox;
    this.fit = this.of.labels.length ? Math.min(1, width / r / this.of.box[0], height / r / this.of.box[1]) : 1;
    const X = (v) => u.valToPos(v, "x", true), Y = (v) => u.valToPos(v, "y", true);
    c.save(); c.beginPath(); c.rect(left, top, width, height); c.clip();
    for (const [i, m] of this.of.marks.entries()) {
      const colour = paint(m.colour);
      if (m.u) { c.fillStyle = rgba(colour, 0.16); c.fillRect(X(m.x - m.u), top, X(m.x + m.u) - X(m.x - m.u), height); }
      c.strokeStyle = colour; c.lineWidth = 1.2 * r; c.setLineDash([2 * r, 3 * r]);
      c.beginPath(); c.moveTo(X(m.x), top); c.lineTo(X(m.x), top + height); c.stroke(); c.setLineDash([]);
      if (!m.label.trim()) continue;
      c.font = `${12 * r}px ${FAMILY}`; c.textAlign = "left"; c.textBaseline = "top";
      const w = c.measureText(m.label).width, x = X(m.x) + 5 * r + w > left + width ? X(m.x) - 5 * r - w : X(m.x) + 5 * r;
      c.fillStyle = rgba(ink.paper, 0.85); c.fillRect(x - 2 * r, top + (2 + 15 * i) * r, w + 4 * r, 15 * r);
      c.fillStyle = colour; c.fillText(m.label, x, top + (4 + 15 * i) * r);
    }
    for (const line of this.of.lines) {
      const colour = paint(line.colour), n = line.x.length;
      c.strokeStyle = c.fillStyle = colour;
      if (line.lines) {
        c.lineWidth = (line.many ? 1.2 : 2) * r; c.setLineDash(line.dashed ? [6 * r, 4 * r] : []);
        c.beginPath();
        let on = false;
        for (let i = 0; i < n; i++) {
          const y = line.y[i], x = line.x[i];
          if (y === null || x === null || (this.of.y.log && y <= 0)) { on = false; continue; }
          if (!on) c.moveTo(X(x), Y(y));
          else if (line.steps) { const mid = (X(line.x[i - 1]) + X(x)) / 2; c.lineTo(mid, Y(line.y[i - 1])); c.lineTo(mid, Y(y)); c.lineTo(X(x), Y(y)); }
          else c.lineTo(X(x), Y(y));
          on = true;
        }
        c.stroke(); c.setLineDash([]);
      }
      if (line.u) for (let i = 0; i < n; i++) {
        if (!line.u[i] || line.y[i] === null) continue;
        const x = X(line.x[i]), a = Y(this.of.y.log ? Math.max(line.y[i] - line.u[i], this.y[0]) : line.y[i] - line.u[i]), b = Y(line.y[i] + line.u[i]);
        c.lineWidth = r; c.beginPath(); c.moveTo(x, a); c.lineTo(x, b); c.moveTo(x - 3 * r, a); c.lineTo(x + 3 * r, a);
        c.moveTo(x - 3 * r, b); c.lineTo(x + 3 * r, b); c.stroke();
      }
      if (line.points) for (let i = 0; i < n; i++) {
        if (line.y[i] === null) continue;
        c.beginPath(); c.arc(X(line.x[i]), Y(line.y[i]), (line.many ? 1.3 : this.fit * (n === 1 ? 4.1 : 3)) * r, 0, 7);
        if (line.dashed) { c.fillStyle = ink.paper; c.fill(); c.lineWidth = 1.6 * r; c.stroke(); c.fillStyle = colour; } else c.fill();
      }
    }
    c.restore();
    this.write(u, ink);
    c.save(); c.font = `${11 * r}px ${FAMILY}`; c.textBaseline = "middle";
    if (wide && this.x === this.of.x.span) for (const e of this.of.ends) {
      c.fillStyle = paint(e.colour); c.textAlign = "left"; c.fillText(e.text, left + width + 6 * r, top + height * (1 - e.at));
    }
    c.restore();
  }
  // How far the reader has zoomed in along an axis, and the share of the axis that is at its low end.
  magnified(name) {
    const s = this.of[name].log ? Math.log : (v) => v, [a, b] = this.of[name].span.map(s), [low, high] = this[name].map(s);
    return { by: (b - a) / (high - low), from: (low - a) / (b - a) };
  }
  // The texts at points, in the places that labels.py gave them. Those of a magnified panel lie further from their points: each is drawn
  // towards its point as far as it meets no other.
  write(u, ink) {
    const { of } = this, c = u.ctx, r = devicePixelRatio, { left, top, width, height } = u.bbox, unit = this.fit * r;
    const x = this.magnified("x"), y = this.magnified("y"), zoomed = this.x !== of.x.span || this.y !== of.y.span;
    const level = Math.min(x.by * width / of.box[0], y.by * height / of.box[1]) / unit;
    const X = (share) => left + (share - x.from) * x.by * width, Y = (share) => top + height * (1 - (share - y.from) * y.by);
    const within = ([a, b], pad = 0) => a >= left + pad && a <= left + width - pad && b >= top && b <= top + height;
    const shown = of.labels.filter((l) => l.level === 1 || l.level <= level).map((l) => {
      const line = of.lines[l.line];
      return { text: line.texts[l.i], colour: paint(l.colour), point: [u.valToPos(line.x[l.i], "x", true), u.valToPos(line.y[l.i], "y", true)],
        at: [X(l.at[0]), Y(l.at[1])], half: [l.width * unit / 2, 7 * unit] };
    });
    if (zoomed) {
      const points = of.lines.flatMap((line) => line.points ? line.x.map((v, i) => [u.valToPos(v, "x", true), u.valToPos(line.y[i], "y", true)]) : []).filter((p) => within(p));
      for (const l of shown.filter((one) => within(one.point))) {
        const near = [(l.at[0] - l.point[0]) / x.by, (l.at[1] - l.point[1]) / y.by], others = shown.filter((one) => one !== l);
        for (const share of [0, 0.25, 0.5, 0.75]) {
          const moved = { ...l, at: [0, 1].map((k) => (1 - share) * (l.point[k] + near[k]) + share * l.at[k]) };
          if (!within(moved.at, l.half[0])) continue;
          if (others.some((o) => Math.abs(o.at[0] - moved.at[0]) < o.half[0] + l.half[0] && Math.abs(o.at[1] - moved.at[1]) < o.half[1] + l.half[1])) continue;
          if (points.some((p) => Math.abs(p[0] - moved.at[0]) < l.half[0] + 4 * unit && Math.abs(p[1] - moved.at[1]) < l.half[1] + 4 * unit)) continue;
          if (others.some((o) => crosses(moved, o.point, o.at) || crosses(o, l.point, moved.at))) continue;
          l.at = moved.at;
          break;
        }
      }
    }
    c.save(); c.font = `${11 * unit}px ${FAMILY}`; c.textAlign = "center"; c.textBaseline = "middle";
    for (const { text, colour, point, at, half } of shown) {
      if (!within(point) || !within(at, half[0] - 1.5 * unit)) continue;
      const d = [point[0] - at[0], point[1] - at[1]], inside = Math.min(1, half[0] / Math.abs(d[0]), half[1] / Math.abs(d[1]));
      const end = [at[0] + inside * d[0], at[1] + inside * d[1]];
      if (Math.hypot(point[0] - end[0], point[1] - end[1]) >= of.led * unit) {
        c.strokeStyle = colour; c.lineWidth = 0.7 * r; c.beginPath(); c.moveTo(...point); c.lineTo(...end); c.stroke();
      }
      c.fillStyle = rgba(ink.paper, 0.75); c.fillRect(at[0] - half[0], at[1] - half[1], 2 * half[0], 2 * half[1]);
      c.fillStyle = colour; c.fillText(text, ...at, 2 * half[0]);
    }
    if (of.unplaced && !zoomed) { c.font = `${10 * r}px ${FAMILY}`; c.textAlign = "right"; c.textBaseline = "bottom"; c.fillStyle = ink.muted; c.fillText(`${of.unplaced}: zoom in`, left + width, top - 2 * r); }
    c.restore();
  }
  hover(u) {
    let best = 22, /** @type {any} */ found = null;
    const { left, top } = u.cursor;
    if (left >= 0) for (const line of this.of.lines) for (let i = 0; i < line.x.length; i++) {
      if (line.y[i] === null) continue;
      const d = Math.hypot(u.valToPos(line.x[i], "x") - left, u.valToPos(line.y[i], "y") - top);
      if (d < best) { best = d; found = [line, i]; }
    }
    this.tip.hidden = !found;
    if (!found) return;
    const [line, i] = found, say = (axis, v) => axis.seconds ? seconds(v) : plain(+v.toPrecision(4));
    const at = line.texts && line.texts[i] && line.texts[i] !== line.name ? ` (${line.texts[i]})` : "";
    this.tip.textContent = line.hover ? line.hover[i] : `${line.name}${at}${line.name ? ": " : ""}${this.of.y.title} ${say(this.of.y, line.y[i])}, ${this.of.x.title} ${say(this.of.x, line.x[i])}`;
    const box = u.over, right = left > box.clientWidth / 2;
    Object.assign(this.tip.style, { top: `${box.offsetTop + top + 12}px`, left: right ? "auto" : `${box.offsetLeft + left + 12}px`,
      right: right ? `${this.where.clientWidth - box.offsetLeft - left + 12}px` : "auto" });
  }
  csv() {
    const rows = [["curve", this.of.x.title, this.of.y.title, "u (k = 2)", "label"]];
    const named = this.of.lines.filter((line) => line.name); // the others join points that have a name each
    for (const line of named.length ? named : this.of.lines) line.x.forEach((x, i) => rows.push([line.name, x, line.y[i], line.u?.[i], line.texts?.[i]]));
    return rows;
  }
  legend() { return this.of.lines.length > 1 ? this.of.lines.map((l) => [l.name, paint(l.colour), l.dashed]).filter(([n]) => n) : []; }
  canvases() { return [[this.of.y.title, this.plot.ctx.canvas]]; }
}

// -- what can be copied -------------------------------------------------------------------------------------------------

function csvText(rows) {
  const cell = (v) => v === null || v === undefined ? "" : /[",\n]|^[=+@-]\D/.test(String(v)) ? `"${String(v).replaceAll('"', '""')}"` : String(v);
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
// Every row says that it was not measured, where it was not: rows are cut out and joined with others.
function withOrigin(rows) {
  return O ? rows.map((row, i) => [...row, i ? O : "origin"]) : rows;
}
function save(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob); link.download = name; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
// A picture for a review: title, charts, legend, and below them what was measured on what.
function picture(title, charts, legend) {
  const r = devicePixelRatio, ink = inks(), out = document.createElement("canvas"), c = penOf(out);
  const width = Math.max(420 * r, ...charts.map(([, canvas]) => canvas.width)) + 24 * r, lines = [];
  c.font = `${11 * r}px ${FAMILY}`;
  let line = "";
  for (const word of C.split("\n").slice(0, 4).join(" · ").split(" ")) {
    if (c.measureText(`${line} ${word}`).width > width - 24 * r && line) { lines.push(line); line = word; } else line = line ? `${line} ${word}` : word;
  }
  lines.push(line);
  c.font = `${11.5 * r}px ${FAMILY}`;
  let x = 14 * r, row = 0;
  const places = legend.map(([text]) => {
    const w = c.measureText(text).width;
    if (x + w + 24 * r > width && x > 14 * r) { x = 14 * r; row++; }
    const at = [x, row];
    x += w + 36 * r;
    return at;
  });
  out.width = width;
  out.height = (40 + 18 * charts.filter(([t]) => t).length + (legend.length ? 22 + 17 * row : 0) + 15 * lines.length + 14) * r + charts.reduce((s, [, canvas]) => s + canvas.height, 0);
  c.fillStyle = ink.paper; c.fillRect(0, 0, out.width, out.height);
  let y = 26 * r;
  c.fillStyle = ink.ink; c.font = `600 ${15 * r}px ${FAMILY}`; c.fillText(title, 12 * r, y); y += 10 * r;
  for (const [text, canvas] of charts) {
    if (text) { y += 14 * r; c.font = `${11.5 * r}px ${FAMILY}`; c.fillStyle = ink.muted; c.fillText(text, 14 * r, y); y += 4 * r; }
    c.drawImage(canvas, 12 * r, y); y += canvas.height;
  }
  if (legend.length) {
    y += 16 * r; c.font = `${11.5 * r}px ${FAMILY}`;
    legend.forEach(([text, colour, dashed], i) => {
      const [left, down] = places[i], top = y + 17 * down * r;
      c.fillStyle = colour; c.fillRect(left, top - 6 * r, (dashed ? 6 : 14) * r, 3 * r);
      if (dashed) c.fillRect(left + 9 * r, top - 6 * r, 5 * r, 3 * r);
      c.fillStyle = ink.ink; c.fillText(text, left + 19 * r, top);
    });
    y += (17 * row + 6) * r;
  }
  c.font = `${11 * r}px ${FAMILY}`; c.fillStyle = ink.muted;
  for (const text of lines) { y += 15 * r; c.fillText(text, 14 * r, y); }
  return out;
}
async function copied(button, put, otherwise) {
  const said = button.textContent;
  try { await put(); button.textContent = "copied"; } catch { otherwise(); button.textContent = "saved"; }
  setTimeout(() => { button.textContent = said; }, 1500);
}
const fileName = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "chart";

function copyBar(figure, title, chart) {
  const bar = document.createElement("div");
  bar.className = "copy"; bar.setAttribute("role", "group"); bar.setAttribute("aria-label", `copy: ${title}`);
  const add = (text, hint, act) => {
    const button = document.createElement("button");
    button.textContent = text; button.title = hint; button.addEventListener("click", () => act(button)); bar.append(button);
  };
  add("picture", "copies a PNG with title and conditions", (button) => {
    const blob = new Promise((done) => picture(title, chart.canvases(), chart.legend()).toBlob(done, "image/png"));
    copied(button, () => navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]), async () => save(fileName(title) + ".png", await blob));
  });
  add("CSV", "copies the data that are drawn", (button) => {
    const text = csvText(withOrigin(chart.csv()));
    copied(button, () => navigator.clipboard.writeText(text), () => save(fileName(title) + ".csv", new Blob([text], { type: "text/csv" })));
  });
  add("conditions", "copies what was measured, on what, how", (button) => {
    const text = `${title}\n${C}\n`;
    copied(button, () => navigator.clipboard.writeText(text), () => save(fileName(title) + ".txt", new Blob([text], { type: "text/plain" })));
  });
  figure.append(bar);
}

class BarChart { // for copying only: on the page it is HTML
  constructor(of) { this.of = of; }
  csv() {
    const names = Object.keys(this.of.legend);
    return [["drive", `value, ${this.of.unit}`, "u (k = 2)", "remark", "records lost", ...names.map((name) => `${name}, ${this.of.unit}`)],
      ...this.of.bars.map(([l, v, u, , , remark, lost, parts]) => [l, v, u, remark, lost || "", ...names.map((name) => parts[name])])];
  }
  legend() { return Object.entries(this.of.legend).map(([name, colour]) => [name, paint(colour), false]); }
  canvases() {
    const r = devicePixelRatio, ink = inks(), { bars } = this.of, canvas = document.createElement("canvas"), c = penOf(canvas);
    canvas.width = 720 * r; canvas.height = (24 * bars.length + 8) * r;
    const sum = (parts) => Object.values(parts).reduce((all, v) => all + v, 0);
    const top = Math.max(...bars.map(([, v, u, , , , , parts]) => Math.max(v + (u || 0), sum(parts)))) || 1, from = 230 * r;
    const texts = bars.map(([, value, , , , remark]) => [`${plain(+value.toPrecision(4))} ${this.of.unit}`, remark].filter(Boolean).join("  "));
    c.font = `600 ${12.5 * r}px ${FAMILY}`;
    const room = Math.max(canvas.width - from - Math.max(...texts.map((text) => c.measureText(text).width)) - 14 * r, 100 * r);
    bars.forEach(([label, value, u, colour, picked, , , parts], i) => {
      const y = (24 * i + 6) * r, end = from + room * Math.max(value, 0) / top;
      c.font = `${picked ? 600 : 400} ${12.5 * r}px ${FAMILY}`; c.textBaseline = "middle";
      c.fillStyle = ink.ink; c.textAlign = "right"; c.fillText(label, from - 8 * r, y + 8 * r, from - 12 * r);
      let at = from;
      for (const [name, part] of Object.entries(parts)) { c.fillStyle = paint(this.of.legend[name]); c.fillRect(at, y, room * part / top, 16 * r); at += room * part / top; }
      if (at === from) { c.fillStyle = paint(colour); c.fillRect(from, y, Math.max(end - from, r), 16 * r); }
      if (u) { c.fillStyle = ink.ink; c.fillRect(from + room * Math.max(value - u, 0) / top, y + 7 * r, Math.max(room * 2 * u / top, r), 1.5 * r); }
      c.fillStyle = ink.ink; c.textAlign = "left"; c.fillText(texts[i], Math.max(at, from + room * (Math.max(value, 0) + (u || 0)) / top) + 7 * r, y + 8 * r);
    });
    return [["", canvas]];
  }
}

// -- the page -----------------------------------------------------------------------------------------------------------

const drawn = {};
// One panel a turn, so that the page can be read and scrolled while a hundred of them are drawn.
const waiting = Object.keys(P);
function next() {
  const id = waiting.shift();
  if (id === undefined) return;
  drawn[id] = new PanelPlot(id);
  copyBar(around(drawn[id].where, "figure"), drawn[id].where.dataset.title, drawn[id]);
  setTimeout(next, 0);
}
for (const [key, of] of Object.entries(B)) copyBar(byId(`bars-${key}`), of.title, new BarChart(of));
const again = [];
function drawAll() { while (waiting.length) next(); Object.values(drawn).forEach((p) => p.draw()); again.forEach((f) => f()); }
let width = innerWidth, later = 0;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; clearTimeout(later); later = setTimeout(drawAll, 120); } });
DARK.addEventListener("change", drawAll);
// Paper cannot be scrolled: a table that is wider than the sheet is made smaller.
function fitTables() {
  for (const table of /** @type {NodeListOf<HTMLTableElement>} */ (document.querySelectorAll(".wide > table"))) {
    table.style.zoom = "";
    const room = around(table, ".wide").clientWidth;
    if (printing && table.offsetWidth > room) table.style.zoom = String(room / table.offsetWidth);
  }
}
function print(on) { printing = on; document.body.classList.toggle("printing", on); fitTables(); drawAll(); }
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
next();
