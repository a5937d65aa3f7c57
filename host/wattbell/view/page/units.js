/** Numbers as people write them: SI prefixes, three digits, and times to the last tick. */

const PREFIXES = { "-12": "p", "-9": "n", "-6": "µ", "-3": "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T" };
const THIN = "\u202f"; // narrow no-break space, between groups of digits and before units
export const UNKNOWN = "–";

/** The power of ten (a multiple of 3) that brings `value` into 1..1000. */
export function exponent(value) {
  if (!value || !Number.isFinite(value)) return 0;
  // 999.96 would be written as 1000: the next prefix
  const power = Math.floor((Math.log10(Math.abs(value)) + 2e-4) / 3) * 3;
  return Math.min(12, Math.max(-12, power));
}

/** `2.31 W`, `46.2 µs`; `–` for an unknown value. */
export function si(value, unit, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNKNOWN;
  if (value === 0) return `0${THIN}${unit}`;
  const power = exponent(value);
  const scaled = value / 10 ** power;
  const before = Math.max(1, Math.floor(Math.log10(Math.abs(scaled) || 1)) + 1);
  return `${scaled.toFixed(Math.max(0, digits - before))}${THIN}${PREFIXES[power]}${unit}`;
}

/** Labels of an axis: one prefix and as many decimals as their `step` needs. */
export function axisLabels(splits, unit, increment) {
  const known = splits.filter((value) => value !== null);
  if (known.length === 0) return splits.map(() => null);
  const power = exponent(Math.max(...known.map(Math.abs)));
  const step = increment / 10 ** power;
  const decimals = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  return splits.map((value) =>
    value === null ? null : value === 0 ? "0" : `${(value / 10 ** power).toFixed(decimals)}${THIN}${PREFIXES[power]}${unit}`);
}

/** A count with its digits in groups of three. */
export function count(value) {
  if (value === null || value === undefined) return UNKNOWN;
  return group(String(Math.round(value)));
}

function group(digits) {
  return digits.replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
}

/** Digits behind the point, in groups from the left. */
function groupFraction(digits) {
  return digits.replace(/(\d{3})(?=\d)/g, `$1${THIN}`);
}

/** Exact duration of `ticks`, to the nanosecond (or the tick, where that is finer): `46.213 µs`, `1.000 000 008 s`. */
export function duration(ticks, tickSeconds) {
  const sign = ticks < 0 ? "−" : "";
  const size = Math.abs(ticks) * tickSeconds;
  const finest = tickSeconds < 0.99e-9 ? 12 : 9;
  const power = size < 0.9999999995e-6 ? -9 : size < 0.9999999995e-3 ? -6 : size < 0.9999999995 ? -3 : 0;
  const [whole, fraction] = (size / 10 ** power).toFixed(finest + power).split(".");
  return `${sign}${group(whole)}${fraction ? `.${groupFraction(fraction)}` : ""}${THIN}${PREFIXES[power]}s`;
}

/** A time since the capture's origin, to the nanosecond; with hours and minutes from one minute on. */
export function instant(ticks, tickSeconds) {
  const seconds = ticks * tickSeconds;
  if (Math.abs(seconds) < 60) return duration(ticks, tickSeconds);
  const whole = Math.floor(Math.abs(seconds));
  const rest = Math.abs(seconds) - whole;
  return `${seconds < 0 ? "−" : ""}${clock(whole)}.${groupFraction(rest.toFixed(9).slice(2))}`;
}

/** `1:02:03` of whole seconds; `2:03` below an hour. */
export function clock(seconds) {
  const two = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const minutes = Math.floor(seconds / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

const SCALES = { s: 1, ms: 1e-3, us: 1e-6, µs: 1e-6, μs: 1e-6, ns: 1e-9 };

/**
 * Seconds of `100us`, `1.5 ms`; a bare number is microseconds. Null for an empty text.
 * @throws {Error} for a text that is no duration
 */
export function parseSeconds(text) {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  const match = /^(\d+(?:\.\d*)?|\.\d+)\s*(s|ms|us|µs|μs|ns)?$/.exec(trimmed);
  if (!match) throw new Error(`${trimmed} is no duration: write 100us, 1.5ms or 2s.`);
  return Number(match[1]) * SCALES[match[2] ?? "us"];
}

/**
 * A whole number, decimal or with 0x in front. Null for an empty text.
 * @throws {Error} of anything else
 */
export function parseInteger(text, what) {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  if (!/^(0x[0-9a-f]+|\d+)$/i.test(trimmed)) throw new Error(`${what} ${trimmed} is no whole number: write 4096 or 0x1000.`);
  return Number(trimmed);
}

/** With a fixed number of decimals and a true minus sign, which zero never has. */
export function fixed(value, places) {
  const text = value.toFixed(places);
  return /[1-9]/.test(text) ? text.replace("-", "−") : text.replace("-", "");
}
