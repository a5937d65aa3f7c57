// Draws the time line of a capture from D (see interactive.py); plots.js, before it, draws the rest. Each zoom shows at most POINTS bins
// of an envelope.
const POINTS = 1400;

function floats(text) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}
for (const e of Object.values(D.envelopes)) {
  e.mean = floats(e.mean);
  e.low = e.low ? floats(e.low) : e.mean; e.high = e.high ? floats(e.high) : e.mean;
}

// Bins of an envelope between two times and one to each side, merged to at most POINTS: minimum of minima, mean of means, maximum of maxima.
function visible(e, a, b) {
  const first = Math.max(0, Math.floor((a - e.t0) / e.dt) - 1), last = Math.min(e.mean.length, Math.ceil((b - e.t0) / e.dt) + 1);
  const k = Math.max(1, Math.ceil((last - first) / POINTS));
  /** @type {{t: number[], low: (number|null)[], mean: (number|null)[], high: (number|null)[], half: number}} */
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
const show = (v, unit, digits = 4) => unit === "s" ? seconds(+v.toPrecision(digits)) : `${plain(+v.toPrecision(digits))} ${unit}`;

class Row {
  /** @type {uPlot} */
  plot;
  constructor(of, line, last) {
    this.of = of; this.line = line; this.last = last; this.log = of.log;
    this.where = byId(`lane-${of.key}`); this.read = /** @type {HTMLElement} */ (around(this.where, "figure").querySelector(".read"));
    this.y = [0, 1];
  }
  // The data of the stretch, and the y axis that holds them.
  data() {
    const [a, b] = this.line.span, columns = [];
    this.shown = this.of.series.map((s) => visible(D.envelopes[s.key], a, b));
    const values = [];
    this.t = this.shown[0].t;
    for (const v of this.shown) {
      columns.push(v.low, v.high, v.mean);
      v.t.forEach((t, i) => { if (v.mean[i] !== null && t + v.half > a && t - v.half < b) values.push(v.low[i], v.high[i]); });
    }
    this.empty = !values.length;
    const known = this.log ? values.filter((v) => v > 0) : values;
    let low = known.reduce((x, y) => Math.min(x, y), Infinity), high = known.reduce((x, y) => Math.max(x, y), -Infinity);
    if (!known.length) [low, high] = this.log ? [0.1, 1] : [0, 1];
    if (this.log) this.y = [low / 1.12, high * 1.12];
    else if (this.of.near) { const pad = 0.12 * (high - low) || 0.01 * Math.abs(high) || 1; this.y = [low - pad, high + pad]; }
    else this.y = [Math.min(0, low), high > 0 ? 1.06 * high : 1];
    return [this.t, ...columns];
  }
  draw() {
    const ink = inks(), steps = uPlot.paths.stepped?.({ align: -1 }), straight = uPlot.paths.linear?.(), none = () => null;
    const series = [{}], bands = [];
    const data = this.data();
    for (const s of this.of.series) {
      const colour = paint(s.colour), n = series.length;
      const side = { scale: "y", points: { show: false }, width: 0, stroke: "transparent", paths: s.points || !s.band ? none : straight };
      series.push(side, side, s.points
        ? { scale: "y", paths: none, points: { show: true, size: 3.4, width: 0, fill: colour, stroke: colour, filter: null } }
        : { scale: "y", stroke: colour, width: 1.2, points: { show: false }, paths: s.band ? straight : steps });
      if (s.band && !s.points) bands.push({ series: [n + 1, n], fill: rgba(colour, dark() ? 0.32 : 0.22) });
    }
    const x = { title: this.last ? "time, s" : "", log: false, grid: false };
    const xAxis = axisOptions("x", x, () => this.line.span, 2);
    if (!this.last) Object.assign(xAxis, { values: (u, splits) => splits.map(() => ""), size: 8 });
    const y = { log: this.log, seconds: this.of.seconds };
    this.plot?.destroy();
    this.plot = new uPlot({
      width: this.where.clientWidth, height: Math.round(108 * this.of.weight) + (this.last ? 36 : 0), padding: [this === this.line.rows[0] ? 18 : 6, 8, 0, 0],
      legend: { show: false }, series, bands,
      scales: { x: { time: false, range: () => /** @type {[number, number]} */ (this.line.span) }, y: { distr: this.log ? 3 : 1, range: () => /** @type {[number, number]} */ (this.y) } },
      axes: [xAxis, { ...axisOptions("y", y, () => this.y, 3), size: 66 }],
      cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { show: false }, bind: { dblclick: () => () => this.line.go(0, D.end) } },
      hooks: {
        drawClear: [(u) => this.behind(u, ink)], draw: [(u) => this.above(u, ink)],
        setSelect: [(u) => {
          const { left, width } = u.select;
          if (width < 4) return;
          u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          this.line.go(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
        }],
        setCursor: [(u) => this.line.point(this, u)],
      },
    }, data, this.where);
  }
  update() { const data = this.data(); this.plot.batch(() => { this.plot.setData(data); this.plot.setScale("x", { min: this.line.span[0], max: this.line.span[1] }); }); }
  behind(u, ink) {
    const c = u.ctx, { left, top, width, height } = u.bbox, r = devicePixelRatio;
    const X = (v) => Math.min(Math.max(u.valToPos(v, "x", true), left), left + width);
    c.save();
    D.phases.forEach((p, i) => {
      const a = X(p.first), b = X(p.last);
      if (b <= a) return;
      if (i % 2 === 0) { c.fillStyle = ink.phase; c.fillRect(a, top, b - a, height); }
      if (this === this.line.rows[0] && b - a > 14 * r) {
        c.fillStyle = ink.muted; c.font = `${11 * r}px ${FAMILY}`; c.textAlign = "center"; c.textBaseline = "bottom"; c.fillText(String(p.number), (a + b) / 2, top - 3 * r);
      }
    });
    for (const [first, last] of D.gaps) {
      if (last < this.line.span[0] || first > this.line.span[1]) continue;
      const a = X(first), w = Math.max(X(last) - a, 1.5 * r);
      c.fillStyle = "rgba(211,47,47,.22)"; c.fillRect(a, top, w, height);
    }
    c.restore();
  }
  above(u, ink) {
    const c = u.ctx, { left, top, width, height } = u.bbox, r = devicePixelRatio;
    c.save(); c.beginPath(); c.rect(left, top, width, height); c.clip();
    this.of.series.forEach((s, k) => {
      if (!s.points) return;
      const v = this.shown[k];
      c.strokeStyle = rgba(paint(s.colour), 0.35); c.lineWidth = Math.max(1, Math.min(4, 2 * v.half / (this.line.span[1] - this.line.span[0]) * width / r)) * r;
      c.beginPath();
      v.t.forEach((t, i) => { if (v.mean[i] !== null) { const x = u.valToPos(t, "x", true); c.moveTo(x, u.valToPos(v.low[i], "y", true)); c.lineTo(x, u.valToPos(v.high[i], "y", true)); } });
      c.stroke();
    });
    if (this.empty) {
      c.fillStyle = ink.muted; c.font = `${12 * r}px ${FAMILY}`; c.textAlign = "center"; c.textBaseline = "middle";
      c.fillText(this.words(), left + width / 2, top + height / 2);
    }
    c.restore();
  }
  words() { return this.empty ? `${this.of.title.split(",")[0]}: nothing in this stretch` : ""; }
  say(t) {
    const n = this.of.near ? 6 : 4, out = this.of.series.map((s, k) => {
      const v = this.shown[k], i = Math.round((t - v.t[0]) / (2 * v.half)), m = v.mean[i];
      if (m === null || m === undefined) return "";
      return `${this.of.series.length > 1 ? s.name + " " : ""}${show(m, s.unit, n)}${s.band && v.low[i] !== v.high[i] ? ` (${show(v.low[i], s.unit, n)} to ${show(v.high[i], s.unit, n)})` : ""}`;
    });
    this.read.textContent = t === null ? "" : out.filter(Boolean).join(", ");
  }
  csv() {
    const rows = [["series", "t_s", "mean", "least", "greatest", "unit"]];
    this.of.series.forEach((s, k) => { const v = this.shown[k]; v.t.forEach((t, i) => { if (v.mean[i] !== null) rows.push([`${this.of.key} ${s.name}`, +t.toPrecision(10), v.mean[i], v.low[i], v.high[i], s.unit]); }); });
    return rows;
  }
  legend() { return this.of.series.length > 1 ? this.of.series.map((s) => [s.name, paint(s.colour)]) : []; }
  canvases() { return [[this.of.title, this.plot.ctx.canvas]]; }
}

class TimeLine {
  constructor() {
    this.span = [0, D.end];
    this.rows = D.rows.map((row, i) => new Row(row, this, i === D.rows.length - 1));
    const fine = D.rows.map((row) => [row.title.split(",")[0], Math.min(...row.series.map((s) => D.envelopes[s.key].dt))]);
    this.least = 12 * Math.min(...fine.map(([, dt]) => dt), Infinity);
    this.finest = fine.filter(([, dt], i) => fine.findIndex(([, other]) => other === dt) === i).map(([name, dt]) => `${seconds(+dt.toPrecision(3))} (${name})`).join(", ");
    this.words = byId("span"); this.chips = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#phases button")]);
    this.draw();
    for (const chip of this.chips) chip.addEventListener("click", () => {
      const a = Number(chip.dataset.a), b = Number(chip.dataset.b), pad = a === 0 && b === D.end ? 0 : 0.02 * (b - a);
      this.go(a - pad, b + pad);
      this.chips.forEach((x) => x.classList.toggle("on", x === chip));
    });
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#moves [data-move]"))) button.addEventListener("click", () => {
      const [a, b] = this.span, w = b - a;
      this.go(...{ left: [a - w / 2, b - w / 2], right: [a + w / 2, b + w / 2], in: [a + w / 4, b - w / 4], out: [a - w / 2, b + w / 2] }[button.dataset.move]);
    });
    const log = document.getElementById("log-power");
    log?.addEventListener("click", () => {
      const row = this.rows.find((r) => r.of.key === "power");
      row.log = log.classList.toggle("on"); log.setAttribute("aria-pressed", row.log); row.draw();
    });
    const figures = this.rows.map((row) => around(row.where, "figure"));
    this.rows.forEach((row, i) => copyBar(figures[i], `${document.querySelector("h1")?.textContent}: ${row.of.title.split(",")[0]}`, row));
  }
  draw() { this.rows.forEach((row) => row.draw()); this.say(); }
  go(a, b) {
    const asked = b - a, w = Math.min(Math.max(asked, Math.min(this.least, D.end)), D.end), middle = (a + b) / 2;
    const first = Math.min(Math.max(middle - w / 2, 0), D.end - w);
    this.span = [first, first + w]; this.limit = asked < this.least;
    this.chips.forEach((chip, i) => chip.classList.toggle("on", i === 0 && w === D.end));
    this.rows.forEach((row) => row.update()); this.say();
  }
  say() {
    const [a, b] = this.span, places = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10((b - a) || 1))));
    const where = `${a.toFixed(places)} s to ${b.toFixed(places)} s (${seconds(+(b - a).toPrecision(4))})`;
    this.words.classList.toggle("limit", Boolean(this.limit));
    this.words.textContent = this.limit ? `${where}. No closer: this page holds a point every ${this.finest}. ${VIEW}` : `${where}. ${VIEW}`;
  }
  point(from, u) {
    if (this.moving) return;
    this.moving = true;
    const out = u.cursor.left < 0, t = out ? null : u.posToVal(u.cursor.left, "x");
    for (const row of this.rows) {
      if (row !== from) row.plot.setCursor({ left: out ? -10 : u.cursor.left, top: out ? -10 : 10 }, false);
      row.say(t);
    }
    this.moving = false;
  }
}

const timeline = D.rows.length ? new TimeLine() : null;
if (timeline) again.push(() => timeline.draw());
