/** State of the view: one object, kept in the address's fragment, with listeners. */

/** Rows in their order, with their names in the fragment and on the page. The first (time and phases) is always there. */
export const ROWS = [
  ["power", "Power"], ["current", "Current"], ["voltage", "Voltage"], ["load", "MB/s"], ["iops", "IOPS"], ["depth", "Queue depth"],
  ["commands", "Commands"], ["states", "Power states"], ["levels", "Link and pins"],
];
/** @type {State["theme"][]} */
const THEMES = ["auto", "light", "dark"];
const HISTOGRAMS = ["power", "current", "voltage", "latency"];

/**
 * State of the view.
 * @typedef {object} State
 * @property {number} begin first tick of the view, of the first capture from its origin
 * @property {number} end
 * @property {?number} a cursor
 * @property {?number} b cursor
 * @property {string[]} hidden rows that are not shown
 * @property {"auto"|"light"|"dark"} theme
 * @property {number} shown place of the capture with the commands, levels and figures that are shown
 * @property {string} histogram its quantity
 * @property {any} command the command that is picked, a row of the server's
 */

/** The state before anything is known. @returns {State} */
export function initial() {
  return {
    begin: 0, end: 1, a: null, b: null, hidden: [], theme: "auto", shown: 0, histogram: "power", command: null,
  };
}

export class Store {
  #listeners = new Set();

  constructor() {
    /** @type {State} */
    this.state = initial();
  }

  /** Changes what differs and gives every listener the changed keys. @param {Partial<State>} changes */
  set(changes) {
    const changed = new Set(Object.keys(changes).filter((key) => !same(this.state[key], changes[key])));
    if (changed.size === 0) return;
    this.state = { ...this.state, ...changes };
    for (const listener of [...this.#listeners]) listener(changed, this.state);
  }

  listen(listener) {
    this.#listeners.add(listener);
  }
}

function same(one, other) {
  return one === other || (Array.isArray(one) && Array.isArray(other) && one.length === other.length && one.every((x, i) => x === other[i]));
}

/** The fragment of a state: only what differs from the usual. */
export function toFragment(state, extent) {
  const parts = [];
  if (state.begin !== extent.begin || state.end !== extent.end) parts.push(`t=${number(state.begin)},${number(state.end)}`);
  if (state.a !== null) parts.push(`a=${number(state.a)}`);
  if (state.b !== null) parts.push(`b=${number(state.b)}`);
  if (state.hidden.length) parts.push(`hide=${state.hidden.join(",")}`);
  if (state.theme !== "auto") parts.push(`theme=${state.theme}`);
  if (state.shown) parts.push(`k=${state.shown}`);
  if (state.histogram !== "power") parts.push(`histogram=${state.histogram}`);
  return parts.join("&");
}

function number(value) {
  return Number.isInteger(value) ? String(value) : value.toFixed(3);
}

/** The state in a fragment; missing or wrong values are the usual ones. */
export function fromFragment(fragment, extent, captures) {
  const given = new URLSearchParams(fragment.replace(/^#/, ""));
  const usual = initial();
  const ticks = (text) => (text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);
  const [begin, end] = (given.get("t") ?? "").split(",").map(ticks);
  const held = begin !== null && end !== null && end !== undefined && end > begin;
  const names = ROWS.map(([name]) => name);
  const shown = Number(given.get("k") ?? 0);
  return {
    begin: held ? begin : extent.begin,
    end: held ? end : extent.end,
    a: ticks(given.get("a")),
    b: ticks(given.get("b")),
    hidden: (given.get("hide") ?? "").split(",").filter((name) => names.includes(name)),
    theme: THEMES.find((theme) => theme === given.get("theme")) ?? usual.theme,
    shown: Number.isInteger(shown) && shown >= 0 && shown < captures ? shown : 0,
    histogram: HISTOGRAMS.find((quantity) => quantity === given.get("histogram")) ?? usual.histogram,
  };
}
