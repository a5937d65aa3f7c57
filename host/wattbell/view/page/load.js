/** MB/s by direction, IOPS and queue depth: steps as wide as the bins they are counted in. */

import { fromZero, limits, makeChart } from "./chart.js";
import { Row, lastAt } from "./row.js";
import { captureColour, colours } from "./theme.js";
import { si } from "./units.js";

/** Least width of the bins of MB/s and IOPS: below it a bin holds one command or none, and a rate says nothing. */
const RATE_BIN_S = 1e-4;
/** The lines of each row: key of the answer, name, colour, dashes. */
const LINES = {
  load: { kind: "rate", unit: "MB/s", lines: [["read_mb_per_s", "read", "read"], ["write_mb_per_s", "write", "write"]] },
  iops: { kind: "rate", unit: "/s", lines: [["iops", "", "other"]] },
  depth: { kind: "depth", unit: "", lines: [["depth_max", "max", "muted"], ["depth_mean", "mean", "depth"]] },
};

export class LoadRow extends Row {
  /** @param {"load"|"iops"|"depth"} name */
  constructor(name, title, weight, captures, tickSeconds) {
    super(name, title, weight);
    this.captures = captures;
    this.tickSeconds = tickSeconds;
    this.subject = "load";
    const { kind, unit, lines } = LINES[name];
    this.kind = kind;
    this.unit = unit;
    this.lines = lines;
    /** @type {any[]} */
    this.answers = [];
    /** @type {[number|null, number|null]} */
    this.limits = [null, null];
  }

  build() {
    const series = [];
    for (let k = 0; k < this.captures; k++) {
      for (const [, , key] of this.lines) {
        const colour = () => (this.captures > 1 && this.lines.length === 1 ? captureColour(k) : colours[key]);
        series.push({
          stroke: colour, width: 1.25, dash: k > 0 ? [5, 3] : undefined,
          fill: this.captures === 1 && key !== "muted" ? () => `${colour()}22` : undefined,
          paths: uPlot.paths.stepped?.({ align: 1 }), points: { show: false },
        });
      }
    }
    const labels = this.name === "load" ? (splits) => splits.map((v) => (v === null ? null : `${v >= 1000 ? v / 1000 : +v.toPrecision(3)}${v >= 1000 ? "k" : ""}`)) : undefined;
    this.chart = makeChart(this.plot, { series, // of all that was answered: a bin may be wider than the view, and then no middle of one is in it
      y: { range: (self) => fromZero(self, ...this.limits), unit: "", labels }, gapKinds: ["COMMANDS"] });
  }

  available({ about: { has, live } }) {
    return has.commands || live;
  }

  ask(wish) {
    return Promise.all(wish.sources.map((source) => (this.available(source) ? this.#binned(source, wish) : null)));
  }

  take(answers) {
    this.draw(answers.map((answer) => answer?.[this.kind] ?? null));
  }

  /**
   * Rates in bins that are wide enough to be rates; the depth in bins as fine as the view.
   * @param {import("./source.js").Source} source
   * @param {{begin: number, end: number, width: number}} view
   */
  async #binned(source, { begin, end, width }) {
    const points = Math.max(20, Math.round(width / 2));
    const least = RATE_BIN_S / this.tickSeconds;
    const bin = (end - begin) / points;
    const edges = (answer) => ({ ...answer, t: answer.t.map((centre) => centre - answer.width / 2) });
    const reach = Math.max(bin, least);
    const wanted = { begin: Math.floor(begin / reach) * reach, end: (Math.floor(end / reach) + 2) * reach };
    const rate = source.ask("load", { ...wanted, points: Math.max(1, Math.round((wanted.end - wanted.begin) / reach)) });
    const depth = bin >= least ? rate : source.ask("load", { begin, end: end + bin, points: points + 1 });
    const [one, other] = await Promise.all([rate, depth]);
    return { rate: edges(one), depth: one === other ? edges(one) : edges(other) };
  }

  /** @param {any[]} answers of `load`, one for each capture, `t` at the left edges of bins; null where a capture has no commands */
  draw(answers) {
    // a recording has no greatest depth
    this.answers = answers.map((answer) => answer && { ...Object.fromEntries(this.lines.map(([key]) => [key, answer.t.map(() => null)])), ...withoutNull(answer) });
    this.limits = limits(this.answers.flatMap((answer) => (answer ? this.lines.map(([key]) => answer[key]) : [])));
    const tables = this.answers.map((answer) => (answer ? [answer.t, ...this.lines.map(([key]) => answer[key])] : [[], ...this.lines.map(() => [])]));
    this.chart.setData(tables.length === 1 ? tables[0] : uPlot.join(tables));
    this.readout(null);
  }

  readout(t) {
    const pieces = [];
    this.answers.forEach((answer, k) => {
      if (!answer) return;
      const at = t === null ? -1 : lastAt(answer.t, t);
      for (const [key, name, colour] of this.lines) {
        const value = at < 0 ? "" : answer[key][at] === null ? " missing" : ` ${this.#text(answer[key][at])}`;
        const text = `${this.captures > 1 ? `${k + 1} ` : ""}${name}${value}`.trim();
        if (text) pieces.push([text, this.captures > 1 && this.lines.length === 1 ? captureColour(k) : colours[colour]]);
      }
    });
    const width = this.answers[0]?.width;
    if (width) pieces.push([`per ${si(width * this.tickSeconds, "s")}`]);
    this.say(pieces);
  }

  text() {
    return this.answers.flatMap((answer, k) => (answer ? this.lines.map(([key, name]) => {
      const known = answer[key].filter((value) => value !== null);
      if (known.length === 0) return "nothing in view";
      const average = known.reduce((sum, value) => sum + value, 0) / known.length;
      const [least, most] = known.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
      return `${this.captures > 1 ? `capture ${k + 1}, ` : ""}${name} mean ${this.#text(average)}, least ${this.#text(least)}, most ${this.#text(most)}`;
    }) : [])).join("; ");
  }

  #text(value) {
    return this.unit === "MB/s" ? String(+value.toPrecision(4)) : this.unit === "" ? String(+value.toFixed(2)) : si(value, "", 4).trim();
  }
}

function withoutNull(answer) {
  return Object.fromEntries(Object.entries(answer).filter(([, value]) => value !== null && value !== undefined));
}
