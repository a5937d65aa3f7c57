/** Power, current and voltage: the mean, and where a pixel has many samples the range between their extremes. */

import { limits, makeChart, padded } from "./chart.js";
import { Row, nearest } from "./row.js";
import { captureColour, colours } from "./theme.js";
import { si } from "./units.js";

export class RailRow extends Row {
  /** @param {"power"|"current"|"voltage"} quantity @param {string} unit @param {number} captures how many are overlaid */
  constructor(quantity, title, unit, weight, captures) {
    super(quantity, title, weight);
    this.unit = unit;
    this.captures = captures;
    this.subject = "rail";
    /** @type {any[]} */
    this.answers = [];
    /** @type {[number|null, number|null]} */
    this.limits = [null, null];
  }

  build() {
    const colour = (k) => () => (this.captures > 1 ? captureColour(k) : colours[this.name]);
    const series = [];
    const bands = [];
    for (let k = 0; k < this.captures; k++) {
      const at = series.length + 1;
      series.push({ stroke: null, width: 0, points: { show: false } }, { stroke: null, width: 0, points: { show: false } });
      bands.push({ series: [at, at + 1], fill: () => `${colour(k)()}${colours.dark ? "55" : "44"}` });
      series.push({
        stroke: colour(k), width: 1.25,
        points: { show: () => Boolean(this.answers[k]?.raw) && this.answers[k].t.length < 120, size: 5, fill: colour(k), stroke: colour(k) },
      });
    }
    this.chart = makeChart(this.plot, { series, bands, y: { unit: this.unit, range: (self) => (this.name === "power" ? fromNearZero : padded)(self, ...this.limits) }, gapKinds: ["RAIL"] });
  }

  available({ about }) {
    return about.has.rail;
  }

  ask({ sources, begin, end, width }) {
    return Promise.all(sources.map((source) => (source.about.has.rail ? source.ask("rail", { begin, end, points: width }) : null)));
  }

  take(answers) {
    this.draw(answers);
  }

  /** @param {any[]} answers of `rail`, one for each capture, in the page's ticks; null where a capture has no rail */
  draw(answers) {
    this.answers = answers;
    this.limits = limits(answers.flatMap((answer) => (answer ? Object.values(answer[this.name]) : [])));
    const tables = answers.map((answer) => {
      if (!answer) return [[], [], [], []];
      const { mean, min, max } = answer[this.name];
      const none = answer.raw ? mean.map(() => null) : null;
      return [answer.t, answer.raw ? none : max, answer.raw ? none : min, mean];
    });
    this.chart.setData(tables.length === 1 ? tables[0] : uPlot.join(tables));
    this.#idle();
  }

  #idle() {
    const raw = this.answers[0]?.raw;
    this.say([raw ? ["each sample"] : null]);
  }

  readout(t) {
    if (t === null) return this.#idle();
    this.say(this.answers.map((answer, k) => {
      if (!answer) return null;
      const at = nearest(answer.t, t);
      const { mean, min, max } = answer[this.name];
      if (at < 0) return null;
      const range = answer.raw || mean[at] === null ? "" : ` (${si(min[at], this.unit, 4)} … ${si(max[at], this.unit, 4)})`;
      return [`${mean[at] === null ? "missing" : si(mean[at], this.unit, 4)}${range}`, this.captures > 1 ? captureColour(k) : null];
    }));
  }

  text() {
    return this.answers.map((answer, k) => {
      if (!answer) return "";
      const { mean, min, max } = answer[this.name];
      const known = mean.filter((value) => value !== null);
      if (known.length === 0) return "nothing in view";
      const [lows, highs] = [answer.raw ? known : min.filter((x) => x !== null), answer.raw ? known : max.filter((x) => x !== null)];
      const average = known.reduce((sum, value) => sum + value, 0) / known.length;
      const extreme = (values, pick) => values.reduce((one, other) => pick(one, other), values[0]);
      const missing = known.length < mean.length ? ", some of it missing" : "";
      return `${this.captures > 1 ? `capture ${k + 1}, ` : ""}mean ${si(average, this.unit, 4)}, least ${si(extreme(lows, Math.min), this.unit, 4)}, most ${si(extreme(highs, Math.max), this.unit, 4)}${missing}`;
    }).filter(Boolean).join("; ");
  }

  edges(t, reach) {
    const answer = this.answers[0];
    if (!answer?.raw) return [];
    const at = nearest(answer.t, t);
    return at >= 0 && Math.abs(answer.t[at] - t) <= reach ? [answer.t[at]] : [];
  }
}

/** Power is read against zero, unless it hardly changes. */
function fromNearZero(self, min, max) {
  if (min === null || max === null || !Number.isFinite(min)) return [0, 1];
  return min >= 0 && min < max * 0.6 ? [0, max * 1.08 || 1] : padded(self, min, max);
}
