/** Commands as bars from doorbell to CQE with their seven instants, by queue. */

import { makeChart, shared, within } from "./chart.js";
import { INSTANTS, TITLES } from "./fields.js";
import { rowOf } from "./scatter.js";
import { colours, commandColour } from "./theme.js";
import { count, si } from "./units.js";

/** How strongly the time up to an instant is filled: waiting in the queue, in the drive, data on the bus, until the CQE. */
const FILL = { fetch: "40", first_data: "80", last_data: "ff", cqe: "a6" };
const BETWEEN_QUEUES = 0.5;

export class Bars {
  constructor(host, tickSeconds) {
    this.tickSeconds = tickSeconds;
    this.rows = { cqe: [] };
    this.places = [];
    this.queues = [];
    this.height = 1;
    this.picked = null;
    this.chart = makeChart(host, {
      series: [{ paths: () => null, points: { show: false } }],
      y: {
        dir: -1, range: () => [0, this.height], splits: () => this.queues.map((queue) => queue.middle),
        labels: () => this.queues.map((queue) => queue.name), grid: false,
      },
      gapKinds: ["COMMANDS"],
      hooks: { draw: [(self) => this.#paint(self)] },
    });
  }

  /** @param {any} rows columns of the answer */
  draw(rows, picked) {
    this.rows = rows;
    this.picked = picked;
    this.#place();
    this.chart.setData([[shared.begin, shared.end], [null, null]]);
  }

  pick(picked) {
    this.picked = picked;
    this.chart.redraw(false);
  }

  /** Gives each command a lane of its queue that is free from its first instant to its last. */
  #place() {
    const { qid, cqe } = this.rows;
    const first = cqe.map((end, i) => this.rows.doorbell[i] ?? this.rows.fetch[i] ?? this.rows.first_data[i] ?? end);
    const last = cqe.map((end, i) => Math.max(end, this.rows.msix[i] ?? end, this.rows.cq_head[i] ?? end));
    const order = cqe.map((_, i) => i).sort((i, j) => qid[i] - qid[j] || first[i] - first[j] || cqe[i] - cqe[j]);
    this.places = new Array(cqe.length);
    this.queues = [];
    let top = 0;
    let lanes = [];
    const close = () => {
      if (!this.queues.length) return;
      const queue = this.queues.at(-1);
      queue.middle = queue.top + lanes.length / 2;
      top = queue.top + lanes.length + BETWEEN_QUEUES;
    };
    for (const i of order) {
      if (this.queues.at(-1)?.qid !== qid[i]) {
        close();
        lanes = [];
        this.queues.push({ qid: qid[i], name: qid[i] === 0 ? "admin" : `${TITLES.qid} ${qid[i]}`, top });
      }
      let lane = lanes.findIndex((until) => until < first[i]);
      if (lane < 0) lane = lanes.push(0) - 1;
      lanes[lane] = last[i];
      this.places[i] = { begin: first[i], end: cqe[i], last: last[i], lane: this.queues.at(-1).top + lane };
    }
    close();
    this.height = Math.max(1, top - BETWEEN_QUEUES);
  }

  #paint({ ctx, bbox, valToPos }) {
    const ratio = devicePixelRatio;
    const x = (tick) => Math.min(bbox.left + 2 * bbox.width, Math.max(bbox.left - bbox.width, valToPos(tick, "x", true)));
    const lane = bbox.height / this.height;
    const thick = Math.min(Math.max(1.5 * ratio, lane * 0.72), 24 * ratio);
    within(ctx, bbox, "left");
    const named = new Map(); // rows whose instants are named, by lane
    for (let i = 0; i < this.places.length; i++) {
      const place = this.places[i];
      if (place.last < shared.begin || place.begin > shared.end) continue;
      const row = rowOf(this.rows, i);
      const middle = bbox.top + (place.lane + 0.5) * lane;
      this.#bar(ctx, row, place, x, middle, thick, bbox);
      if (x(place.end) - x(place.begin) >= 220 * ratio || this.#isPicked(row)) named.set(place.lane, [...(named.get(place.lane) ?? []), row]);
    }
    const lines = Math.min(5, Math.floor(((lane - thick) / 2 - 3 * ratio) / (12 * ratio)));
    for (const [place, rows] of lines > 0 ? named : []) {
      rows.sort((one, other) => other.cqe - one.cqe);
      this.#names(ctx, rows, x, bbox.top + (place + 0.5) * lane + thick / 2, bbox, lines);
    }
    ctx.restore();
  }

  #bar(ctx, row, place, x, middle, thick, bbox) {
    const ratio = devicePixelRatio;
    const colour = commandColour(row);
    const top = middle - thick / 2;
    const ends = x(place.end);
    let from = x(place.begin);
    const begins = from;
    for (const key of ["fetch", "first_data", "last_data", "cqe"]) {
      const tick = row[key];
      if (tick === null || (key !== "cqe" && tick < place.begin)) continue;
      const to = x(tick);
      ctx.fillStyle = `${colour}${FILL[key]}`;
      ctx.fillRect(from, top, Math.max(to - from, key === "cqe" && to === begins ? ratio : 0), thick);
      from = to;
    }
    // after the CQE only the host is at work: a thread to the interrupt and to the head's doorbell
    if (place.last > place.end) {
      ctx.fillStyle = `${colour}90`;
      ctx.fillRect(ends, middle - ratio / 2, x(place.last) - ends, ratio);
    }
    const mine = this.#isPicked(row);
    if (mine || row.status) {
      ctx.strokeStyle = row.status ? colours.failed : colours.ink;
      ctx.lineWidth = (mine ? 2 : 1.25) * ratio;
      ctx.strokeRect(begins, top, Math.max(ratio, ends - begins), thick);
    }
    if (thick >= 5 * ratio && ends - begins >= 60 * ratio) {
      ctx.fillStyle = colours.ink;
      for (const [key] of INSTANTS) {
        if (row[key] !== null) ctx.fillRect(Math.round(x(row[key])) - ratio / 2, top - 1.5 * ratio, ratio, thick + 3 * ratio);
      }
    }
    if (thick >= 11 * ratio) this.#text(ctx, row, Math.max(begins, bbox.left), Math.min(ends, bbox.left + bbox.width), middle);
  }

  #isPicked(row) {
    return this.picked !== null && row.index === this.picked.index;
  }

  /** Writes the command into its bar, if there is room. */
  #text(ctx, row, left, right, middle) {
    const ratio = devicePixelRatio;
    const long = `${row.name}${row.admin ? "" : ` ${TITLES.slba} ${count(row.slba)} × ${count(row.blocks)}`}${row.latency_s === null ? "" : `  ${si(row.latency_s, "s", 4)}`}`;
    for (const text of [long, row.latency_s === null ? row.name : `${row.name} ${si(row.latency_s, "s")}`, row.name]) {
      const width = ctx.measureText(text).width;
      if (width + 14 * ratio > right - left) continue;
      const at = left + (right - left - width) / 2;
      ctx.fillStyle = `${colours.paper}d8`;
      ctx.fillRect(at - 4 * ratio, middle - 7 * ratio, width + 8 * ratio, 14 * ratio);
      ctx.fillStyle = colours.ink;
      ctx.fillText(text, at, middle + 0.5 * ratio);
      return;
    }
  }

  /**
   * Writes the instants' names below the bars of a lane, from the last to the first. An earlier name goes to a deeper line, so that the
   * thread to it passes to the left of the names that stand above it. Those for which no line has room are left out.
   */
  #names(ctx, rows, x, below, bbox, lines) {
    const ratio = devicePixelRatio;
    const free = new Array(lines).fill(bbox.left + bbox.width);
    ctx.fillStyle = colours.muted;
    for (const row of rows) {
      for (const [key, name] of [...INSTANTS].reverse()) {
        if (row[key] === null) continue;
        const at = x(row[key]);
        if (at < bbox.left || at > bbox.left + bbox.width) continue;
        const until = at + ctx.measureText(name).width + 6 * ratio;
        const line = free.findIndex((_, i) => free.slice(i).every((from) => until <= from));
        if (line < 0) continue;
        const y = below + (8 + 12 * line) * ratio;
        ctx.fillRect(at - ratio / 2, below, ratio, y - below + 4 * ratio);
        ctx.fillText(name, at + 3 * ratio, y);
        free[line] = at;
      }
    }
  }

  /** The command at a place of the plot. */
  at(left, top) {
    const height = this.chart.bbox.height / devicePixelRatio;
    const lane = Math.floor((top / height) * this.height * 2) / 2;
    const tick = this.chart.posToVal(left, "x");
    const reach = ((shared.end - shared.begin) / (this.chart.bbox.width / devicePixelRatio)) * 3;
    const i = this.places.findIndex((place) => lane >= place.lane && lane < place.lane + 1 && tick >= place.begin - reach && tick <= place.last + reach);
    return i < 0 ? null : rowOf(this.rows, i);
  }

  edges(t, reach) {
    return INSTANTS.flatMap(([key]) => this.rows[key]?.filter((tick) => tick !== null && Math.abs(tick - t) <= reach) ?? []);
  }
}
