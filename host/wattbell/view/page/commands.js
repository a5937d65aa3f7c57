/** Every command: a density of latencies over time, a point each, or (zoomed in) a bar each, whatever there is room for. */

import { Bars } from "./bars.js";
import { TITLES } from "./fields.js";
import { Row } from "./row.js";
import { rowOf, Scatter } from "./scatter.js";
import { colours } from "./theme.js";
import { count, si } from "./units.js";

/** Points are drawn for so many commands at most, above that their density. */
const MOST_POINTS = 3000;
/** Bars only of so many. */
const MOST_BARS = 600;

export class CommandsRow extends Row {
  /** @type {Scatter} made by `build` */
  scatter;
  /** @type {Bars} made by `build` */
  bars;
  /** @type {HTMLElement[]} made by `build` */
  hosts = [];

  /** @param {() => number} tickSeconds seconds of a tick of the capture shown */
  constructor(name, title, weight, tickSeconds) {
    super(name, title, weight);
    this.tickSeconds = tickSeconds;
    this.subject = "commands";
    /** @type {any} the answer that is drawn */
    this.answer = null;
    /** @type {any} the command that is picked */
    this.picked = null;
  }

  build() {
    this.hosts = ["scatter", "bars"].map((kind) => {
      const host = document.createElement("div");
      host.className = "plot layer";
      host.dataset.kind = kind;
      this.plot.append(host);
      return host;
    });
    this.scatter = new Scatter(this.hosts[0]);
    this.bars = new Bars(this.hosts[1], this.tickSeconds);
    this.#show("scatter");
  }

  get charts() {
    return this.scatter ? [this.scatter.chart, this.bars.chart] : [];
  }

  #show(kind) {
    this.kind = kind;
    this.element.dataset.kind = kind;
    for (const host of this.hosts) host.hidden = host.dataset.kind !== (kind === "bars" ? "bars" : "scatter");
  }

  /** Single commands can be asked for once the recording has ended. */
  available({ about: { has, live } }) {
    return !live && has.commands;
  }

  async ask({ source, begin, end }) {
    return source.about.has.commands || source.about.live ? source.ask("commands", { begin, end, limit: MOST_POINTS }) : null;
  }

  /** @param {any} answer of `commands` @param {{begin: number, end: number}} view that it was asked for */
  take(answer, view) {
    const { picked } = this;
    this.answer = answer;
    const width = this.plot.clientWidth;
    if (answer.kind === "rows" && barsFit(answer, view, width)) {
      this.#show("bars");
      this.bars.draw(answer.rows, picked);
    } else {
      this.#show(answer.kind === "density" ? "density" : "scatter");
      this.scatter.draw(answer, picked);
    }
    this.readout();
  }

  /** Marks one command as picked; null: none is. */
  pick(picked) {
    this.picked = picked;
    if (this.element.hidden) return;
    this.scatter.pick(picked);
    this.bars.pick(picked);
  }

  move() {
    (this.kind === "bars" ? this.bars : this.scatter).chart.redraw();
  }

  readout() {
    if (!this.answer) return;
    const { count: many, kind } = this.answer;
    const shown = { density: `latency, ${colours.dark ? "brighter" : "darker"}: more`, scatter: "latency at completion", bars: "doorbell to CQE, by queue" }[this.kind];
    const classes = this.kind === "density" ? [] : [["read", "read"], ["write", "write"], ["other", "other"], ["admin", "admin"]].map(([text, key]) => [text, colours[key]]);
    const unplaced = kind === "rows" && this.kind === "scatter" ? this.answer.rows.latency_s.filter((latency) => latency === null).length : 0;
    this.say([
      [`${count(many)}${many === 1 ? " command" : " commands"}`], [shown], ...classes, unplaced ? [`${count(unplaced)} without a known doorbell`] : null,
    ]);
  }

  text() {
    if (!this.answer) return "";
    const { count: many, kind, rows } = this.answer;
    if (kind === "density" || many === 0) return `${count(many)} commands in view`;
    if (many <= 8) return rows.cqe.map((_, i) => commandLines(rowOf(rows, i)).join(", ")).join("; ");
    const known = rows.latency_s.filter((latency) => latency !== null).sort((one, other) => one - other);
    return `${count(many)} commands in view, median latency ${si(known[known.length >> 1], "s")}, least ${si(known[0], "s")}, most ${si(known.at(-1), "s")}`;
  }

  /** The command at a place of the plot, as a row. @returns {any} */
  at(x, y) {
    return this.kind === "bars" ? this.bars.at(x, y) : this.scatter.at(x, y);
  }

  tip(x, y) {
    const row = this.at(x, y);
    if (row) return commandLines(row);
    if (this.kind === "density") return this.scatter.cell(x, y);
    return null;
  }

  edges(t, reach) {
    return this.kind === "bars" ? this.bars.edges(t, reach) : [];
  }
}

function barsFit(answer, view, width) {
  const known = answer.rows.latency_s.filter((latency) => latency !== null);
  if (answer.count === 0 || answer.count > MOST_BARS) return false;
  if (known.length === 0) return answer.count < 50;
  const { doorbell, cqe } = answer.rows;
  const lengths = doorbell.map((begin, i) => (begin === null ? null : cqe[i] - begin)).filter((x) => x !== null).sort((x, y) => x - y);
  return (lengths[lengths.length >> 1] / (view.end - view.begin)) * width >= 9;
}

/** One command in a few lines of text. */
export function commandLines(row) {
  const where = row.admin ? "" : `, ${TITLES.slba} ${count(row.slba)}, ${count(row.blocks)} ${row.blocks === 1 ? "block" : "blocks"}`;
  return [
    `${row.name}${where}`,
    `${row.latency_s === null ? "latency not known" : si(row.latency_s, "s", 4)} · ${TITLES.qid} ${row.qid} · ${TITLES.cid} ${row.cid}${row.status ? ` · ${TITLES.status} ${hex(row.status)}` : ""}`,
  ];
}

export function hex(value) {
  return `0x${value.toString(16)}`;
}
