/** Places an axis's ticks of time and their labels, for any span from days to nanoseconds. */

import { clock, duration } from "./units.js";

const THIN = "\u202f";
/** @type {[number, string][]} powers of ten and their units */
const UNITS = [[-9, "ns"], [-6, "µs"], [-3, "ms"], [0, "s"]];
/** Steps of whole seconds and more. */
const LONG = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000];

/**
 * Ticks of the axis, their labels (null: no room for one) and, where the labels count from a time of their own, this time.
 * @typedef {{splits: number[], labels: (string|null)[], base: string}} TimeTicks
 */

/**
 * @param {number} begin first tick of the view
 * @param {number} end
 * @param {number} tickSeconds seconds of a tick
 * @param {number} width of the plot in pixels
 * @param {(a: string) => number} measure width of a label in pixels
 * @returns {TimeTicks}
 */
export function timeTicks(begin, end, tickSeconds, width, measure) {
  const span = (end - begin) * tickSeconds;
  if (!(span > 0) || !(width > 0)) return { splits: [], labels: [], base: "" };
  for (const step of steps(span)) {
    const pixels = (step.seconds / span) * width;
    if (pixels < 36) continue;
    const made = labelled(begin, end, tickSeconds, span, step);
    const widest = Math.max(0, ...made.labels.map(measure));
    if (widest + 14 <= pixels) return inside(made, begin, end, width, measure);
  }
  return { splits: [], labels: [], base: "" };
}

/** Without the labels that would stand over the plot's edges: at the left is the base, at the right the page ends. */
function inside({ splits, labels, base }, begin, end, width, measure) {
  const kept = labels.map((label, i) => {
    const at = ((splits[i] - begin) / (end - begin)) * width;
    const half = measure(label) / 2;
    return at + half > width + 6 || (base !== "" && at - half < 6) ? null : label;
  });
  return { splits, labels: kept, base };
}

/** Candidates from far too fine upwards: 1, 2, 5 of each decade below a second, then steps of clocks. */
function* steps(span) {
  let power = Math.floor(Math.log10(span / 200));
  for (; power < 0; power++) {
    for (const mantissa of [1, 2, 5]) yield { mantissa, power, seconds: mantissa * 10 ** power };
  }
  for (const seconds of LONG) yield { mantissa: seconds, power: 0, seconds };
}

function labelled(begin, end, tickSeconds, span, step) {
  // what the labels count from: a whole second, millisecond... above the span, so that no label has more digits than differ
  const baseSeconds = baseStep(span);
  const base = baseSeconds === null ? 0 : Math.floor((begin * tickSeconds) / baseSeconds + 1e-9) * baseSeconds;
  const baseTicks = Math.round(base / tickSeconds);
  const first = Math.ceil(((begin - baseTicks) * tickSeconds) / step.seconds - 1e-6);
  const last = Math.floor(((end - baseTicks) * tickSeconds) / step.seconds + 1e-6);
  const splits = [];
  const labels = [];
  const asClock = baseSeconds === null && Math.max(Math.abs(begin), Math.abs(end)) * tickSeconds >= 60;
  const [unitPower, unit] = UNITS.findLast(([power]) => 10 ** power <= span * 1.0000001) ?? UNITS[0];
  for (let place = first; place <= last; place++) {
    splits.push(baseTicks + (place * step.seconds) / tickSeconds);
    labels.push(asClock ? clocked(place, step) : plain(place, step, unitPower, unit));
  }
  return { splits, labels, base: base === 0 ? "" : baseText(base, baseTicks, tickSeconds) };
}

/** Null: the labels count from the capture's origin. */
function baseStep(span) {
  for (const power of [0, -3, -6, -9]) {
    if (span >= 10 ** power) return power === 0 ? null : 10 ** (power + 3);
  }
  return 1e-6;
}

/** Decimal text of place x mantissa x 10^power without a rounding of binary fractions. */
function plain(place, step, unitPower, unit) {
  const decimals = Math.max(0, unitPower - step.power);
  const value = (place * step.mantissa * 10 ** Math.max(0, step.power - unitPower)) / 10 ** decimals;
  return `${value.toFixed(decimals)}${THIN}${unit}`;
}

function clocked(place, step) {
  const decimals = Math.max(0, -step.power);
  const size = Math.abs(place) * step.mantissa;
  const whole = Math.floor(size / 10 ** decimals);
  const fraction = decimals ? `.${String(size % 10 ** decimals).padStart(decimals, "0")}` : "";
  return `${place < 0 ? "−" : ""}${clock(whole)}${fraction}`;
}

/** The base as the shortest exact time. */
function baseText(seconds, ticks, tickSeconds) {
  if (Math.abs(seconds) < 60) return `${duration(ticks, tickSeconds).replace(/\.?(?:0|\u202f(?=0))+(?=\u202f\p{L}+$)/u, "")} +`;
  const whole = Math.floor(seconds + 1e-9);
  const rest = Math.round((seconds - whole) * 1e9);
  return `${clock(whole)}${rest > 0 ? `.${String(rest).padStart(9, "0").replace(/0+$/, "")}` : ""} +`;
}
