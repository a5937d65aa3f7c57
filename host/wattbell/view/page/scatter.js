/** Latency of commands over time: a point each, or the density of many. */

import { makeChart } from "./chart.js";
import { penOf } from "./dom.js";
import { nearest } from "./row.js";
import { colours, densityColour } from "./theme.js";
import { count, si } from "./units.js";

const CLASSES = ["read", "write", "other", "admin"];
const EMPTY = { kind: "rows", rows: { cqe: [], latency_s: [] } };

export class Scatter {
  constructor(host) {
    /** @type {any} */
    this.answer = EMPTY;
    /** @type {any} */
    this.picked = null;
    this.limits = [1e-6, 1e-2];
    this.chart = makeChart(host, {
      series: CLASSES.map((name) => ({
        stroke: () => colours[name], width: 0, paths: () => null,
        points: { show: true, size: 4, width: 0, fill: () => `${colours[name]}b0`, stroke: () => colours[name] },
      })),
      y: { distr: 3, range: () => this.limits, splits: () => this.#splits(), labels: (splits) => splits.map((v) => si(v, "s", 1)) },
      gapKinds: ["COMMANDS"],
      hooks: { drawAxes: [(self) => this.#density(self)], draw: [(self) => this.#marks(self)] },
    });
  }

  /** @param {any} answer of `commands` */
  draw(answer, picked) {
    this.answer = answer;
    this.picked = picked;
    this.image = null;
    if (answer.kind === "density") {
      const edges = answer.latency_edges_s;
      if (edges.length > 1) this.limits = this.#filled(answer) ?? [edges[0], edges.at(-1)];
      this.chart.setData([[], ...CLASSES.map(() => [])]);
      return;
    }
    const { cqe, latency_s: latency, opcode, admin } = answer.rows;
    // uPlot wants ascending x; the answer's order is not relied upon
    this.order = cqe.map((_, i) => i).sort((i, j) => cqe[i] - cqe[j]);
    const classes = CLASSES.map(() => new Array(cqe.length).fill(null));
    let [low, high] = [Infinity, 0];
    this.order.forEach((i, place) => {
      if (!(latency[i] > 0)) return;
      classes[admin[i] ? 3 : opcode[i] === 2 ? 0 : opcode[i] === 1 ? 1 : 2][place] = latency[i];
      low = Math.min(low, latency[i]);
      high = Math.max(high, latency[i]);
    });
    this.limits = high > 0 ? [low / 1.4, high * 1.4] : [1e-6, 1e-2];
    this.x = this.order.map((i) => cqe[i]);
    this.chart.setData([this.x, ...classes]);
  }

  pick(picked) {
    this.picked = picked;
    this.chart.redraw(false);
  }

  /** The rows of latency that have commands, with one of air. */
  #filled({ counts, latency_edges_s: edges }) {
    const used = edges.slice(0, -1).map((_, row) => this.#column(counts, row));
    const first = used.indexOf(true);
    if (first < 0) return null;
    return [edges[Math.max(0, first - 1)], edges[Math.min(edges.length - 1, used.lastIndexOf(true) + 2)]];
  }

  #column(counts, row) {
    return counts.some((column) => column[row] > 0);
  }

  /** 1, 2, 5 of each decade where there is room, else decades. */
  #splits() {
    const [low, high] = this.limits;
    const decades = Math.log10(high / low);
    const mantissas = decades < 1.6 ? [1, 2, 3, 5, 7] : decades < 3 && this.chart?.height > 90 ? [1, 2, 5] : [1];
    const splits = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const mantissa of mantissas) {
        const value = mantissa * 10 ** power;
        if (value >= low && value <= high) splits.push(value);
      }
    }
    return splits;
  }

  #density({ ctx, bbox, valToPos }) {
    const { answer } = this;
    if (answer.kind !== "density") return;
    const { t_edges: t, latency_edges_s: edges, counts } = answer;
    const [wide, high] = [t.length - 1, edges.length - 1];
    if (wide < 1 || high < 1) return;
    if (!this.image || this.imageDark !== colours.dark) {
      this.image = paint(counts, wide, high);
      this.imageDark = colours.dark;
    }
    const [left, right] = [valToPos(t[0], "x", true), valToPos(t[wide], "x", true)];
    const [bottom, top] = [valToPos(edges[0], "y", true), valToPos(edges[high], "y", true)];
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(this.image, left, top, right - left, bottom - top);
    ctx.restore();
  }

  /** A ring around the command that is picked, and a cross over those that failed. */
  #marks({ ctx, bbox, valToPos }) {
    if (this.answer.kind !== "rows" || !this.order) return;
    const { cqe, latency_s: latency, status, index } = this.answer.rows;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineWidth = 1.5 * devicePixelRatio;
    const size = 4 * devicePixelRatio;
    for (let i = 0; i < cqe.length; i++) {
      if (!(latency[i] > 0)) continue;
      const mine = this.picked !== null && index[i] === this.picked.index;
      if (!mine && !status[i]) continue;
      const [x, y] = [valToPos(cqe[i], "x", true), valToPos(latency[i], "y", true)];
      ctx.beginPath();
      if (mine) {
        ctx.strokeStyle = colours.ink;
        ctx.arc(x, y, 1.7 * size, 0, 7);
      } else {
        ctx.strokeStyle = colours.failed;
        ctx.moveTo(x - size, y - size);
        ctx.lineTo(x + size, y + size);
        ctx.moveTo(x - size, y + size);
        ctx.lineTo(x + size, y - size);
      }
      ctx.stroke();
    }
    ctx.restore();
  }

  /** The command with the nearest point to a place, at most 10 pixels off. */
  at(x, y) {
    if (this.answer.kind !== "rows" || !this.x?.length) return null;
    const { rows } = this.answer;
    const time = this.chart.posToVal(x, "x");
    const middle = nearest(this.x, time);
    let [best, least] = [null, 10];
    for (const step of [1, -1]) {
      for (let place = step > 0 ? middle : middle - 1; place >= 0 && place < this.x.length; place += step) {
        const dx = this.chart.valToPos(this.x[place], "x") - x;
        if (Math.abs(dx) > 10) break;
        const latency = rows.latency_s[this.order[place]];
        if (!(latency > 0)) continue;
        const off = Math.hypot(dx, this.chart.valToPos(latency, "y") - y);
        if (off < least) [best, least] = [this.order[place], off];
      }
    }
    return best === null ? null : rowOf(rows, best);
  }

  /** Describes a cell of the density. */
  cell(x, y) {
    const { t_edges: t, latency_edges_s: edges, counts } = this.answer;
    const [time, latency] = [this.chart.posToVal(x, "x"), this.chart.posToVal(y, "y")];
    const column = t.findIndex((edge) => edge > time) - 1;
    const row = edges.findIndex((edge) => edge > latency) - 1;
    const many = counts[column]?.[row];
    return many ? [`${count(many)} of ${si(edges[row], "s")} to ${si(edges[row + 1], "s")}`] : null;
  }
}

/** One command of columns. */
export function rowOf(rows, i) {
  return Object.fromEntries(Object.entries(rows).map(([key, column]) => [key, column[i]]));
}

function paint(counts, wide, high) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [wide, high];
  const pen = penOf(canvas);
  const image = pen.createImageData(wide, high);
  let most = 1;
  for (const column of counts) for (const many of column) most = Math.max(most, many);
  const scale = Math.log1p(most);
  const seen = new Map();
  for (let x = 0; x < wide; x++) {
    for (let row = 0; row < high; row++) {
      const many = counts[x][row];
      if (!many) continue;
      if (!seen.has(many)) seen.set(many, densityColour(0.12 + (0.88 * Math.log1p(many)) / scale));
      image.data.set([...seen.get(many), 255], ((high - 1 - row) * wide + x) * 4);
    }
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}
