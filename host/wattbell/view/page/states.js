/** The power states that were found: bands with their label and its probability. Unknown states are an outline. */

import { makeChart, shared, within } from "./chart.js";
import { Row, lastAt } from "./row.js";
import { colours } from "./theme.js";
import { duration, si } from "./units.js";

/** Pixels of a band that have room for a label with its probability. */
const WIDE = 130;
export const UNKNOWN = "unknown";

/** `95 %`; nothing where no probability is claimed. */
export function percent(probability) {
  if (probability === null || probability === undefined) return "";
  return probability > 0.99 ? "> 99 %" : `${Math.round(100 * probability)} %`;
}

export class StatesRow extends Row {
  constructor(name, title, weight, tickSeconds) {
    super(name, title, weight);
    this.tickSeconds = tickSeconds;
    /** @type {any[]} */
    this.spans = [];
    this.begins = [];
    this.instead = "";
    this.chip.replaceChildren();
  }

  build() {
    this.chart = makeChart(this.plot, {
      series: [{ paths: () => null, points: { show: false } }],
      y: { range: () => [0, 1], splits: () => [0.5], labels: () => ["state"], grid: false },
      gapKinds: ["RAIL"],
      head: 4,
      hooks: { draw: [(self) => this.#paint(self)] },
    });
  }

  /** The place is there before the data, where these come by themselves. */
  available({ about, energy }) {
    return about.has.rail && !about.live && Boolean(about.light || energy);
  }

  /** @param {any[]} spans of the page's ticks, in order @param {string} instead text if there are none */
  draw(spans, instead = "") {
    this.spans = spans;
    this.begins = spans.map(({ begin }) => begin);
    this.instead = instead;
    this.chart.setData([[shared.begin, shared.end], [null, null]]);
  }

  /** The spans in view. */
  #near() {
    return this.spans.slice(Math.max(0, lastAt(this.begins, shared.begin)), lastAt(this.begins, shared.end) + 1).filter(({ end }) => end >= shared.begin);
  }

  #paint({ ctx, bbox, valToPos }) {
    const ratio = devicePixelRatio;
    const top = bbox.top + 0.1 * bbox.height;
    const high = 0.8 * bbox.height;
    within(ctx, bbox, "center");
    for (const span of this.#near()) {
      const left = Math.max(bbox.left - 4 * ratio, valToPos(span.begin, "x", true));
      const right = Math.min(bbox.left + bbox.width + 4 * ratio, valToPos(span.end, "x", true));
      this.#band(ctx, span, left, Math.max(ratio, right - left), top, high);
    }
    if (this.spans.length === 0 && this.instead) {
      ctx.fillStyle = colours.muted;
      ctx.textAlign = "left";
      ctx.fillText(this.instead, bbox.left + 6 * ratio, top + high / 2);
    }
    ctx.restore();
  }

  #band(ctx, { label, look, probability }, left, wide, top, high) {
    const ratio = devicePixelRatio;
    const colour = stateColour(look);
    const sure = look === UNKNOWN ? "" : percent(probability);
    if (look === UNKNOWN) {
      ctx.strokeStyle = colours.muted;
      ctx.lineWidth = ratio;
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.strokeRect(left + ratio / 2, top + ratio / 2, wide - ratio, high - ratio);
      ctx.setLineDash([]);
    } else {
      ctx.fillStyle = `${colour}${colours.dark ? "66" : "40"}`;
      ctx.fillRect(left, top, wide, high);
      ctx.fillStyle = colour;
      ctx.fillRect(left, top, ratio, high);
    }
    const text = [`${label} ${sure}`.trim(), label].find((one) => ctx.measureText(one).width + 8 * ratio < wide);
    if (!text) return;
    ctx.fillStyle = look === UNKNOWN ? colours.muted : colours.ink;
    ctx.fillText(text, left + wide / 2, top + high / 2 + ratio / 2);
  }

  /** The span at a time; null where there is none. */
  #at(t) {
    const span = this.spans[lastAt(this.begins, t)];
    return span && t <= span.end ? span : null;
  }

  /** Names the state of a band that is too narrow for its text. */
  readout(t) {
    const span = t === null ? null : this.#at(t);
    const [left, right] = span ? [span.begin, span.end].map((tick) => this.chart.valToPos(tick, "x")) : [0, 0];
    if (!span || right - left > WIDE) return this.chip.replaceChildren(); // its name is at the left
    this.say([[`${[span.label, percent(span.probability)].filter(Boolean).join(" ")} for ${duration(span.end - span.begin, this.tickSeconds())}`]]);
  }

  tip(left) {
    const span = this.#at(this.chart.posToVal(left, "x"));
    if (!span) return null;
    const seen = [span.mean_w === null ? "" : si(span.mean_w, "W"), span.link ? `link in ${span.link.replaceAll("_", ".")}` : ""].filter(Boolean).join(", ");
    const others = Object.entries(span.shares).sort(([, one], [, other]) => other - one).slice(1).map(([name, share]) => `${name} ${percent(share)}`);
    return [
      span.probability === null ? span.label : `${span.label}, with a probability of ${percent(span.probability)}`,
      [si((span.end - span.begin) * this.tickSeconds(), "s", 4), seen].filter(Boolean).join(", "),
      span.why ? `known by: ${span.why}` : "",
      others.length && span.look !== UNKNOWN ? `else: ${others.join(", ")}` : "",
    ].filter(Boolean);
  }

  text() {
    const near = this.#near();
    if (near.length === 0) return this.instead;
    return times(near, shared.begin, shared.end).map(({ label, ticks, probability }) => `${[label, percent(probability)].filter(Boolean).join(" ")} for ${si(ticks * this.tickSeconds(), "s")}`).join("; ");
  }

  edges(t, reach) {
    return this.#near().map(({ begin }) => begin).filter((tick) => Math.abs(tick - t) <= reach);
  }
}

/** Time by label between two ticks, the longest first, with the mean probability of the label. */
export function times(spans, begin, end) {
  const found = new Map();
  for (const span of spans) {
    const ticks = Math.min(end, span.end) - Math.max(begin, span.begin);
    if (ticks <= 0) continue;
    const one = found.get(span.label) ?? { label: span.label, look: span.look, ticks: 0, sure: 0, claimed: 0 };
    one.ticks += ticks;
    if (span.probability !== null) [one.sure, one.claimed] = [one.sure + ticks * span.probability, one.claimed + ticks];
    found.set(span.label, one);
  }
  return [...found.values()].sort((one, other) => other.ticks - one.ticks).map((one) => ({ ...one, probability: one.claimed > 0 ? one.sure / one.claimed : null }));
}

/** At work warm, asleep cool, awake and idle between them. */
export function stateColour(look) {
  return { active: colours.captures[1], awake: colours.captures[2], asleep: colours.captures[0], waking: colours.captures[3], work: colours.captures[7] }[look] ?? colours.muted;
}
