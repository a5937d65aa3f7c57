/** Energies in the panel: the states of the selection, the uses of its phase's energy, and the energy of a command of each class. */

import { $, make, part } from "./dom.js";
import { stateColour, percent, times } from "./states.js";
import { colours } from "./theme.js";
import { UNKNOWN, count, exponent, fixed, si } from "./units.js";

/** Share of a view below which a phase that is not all in it is none of its. */
const CORNER = 0.02;
const THIN = "\u202f";
const PREFIXES = { "-9": "n", "-6": "µ", "-3": "m", 0: "", 3: "k" };

/** `12.369 ± 0.022 µJ`: to two digits of the uncertainty, or to four of the value where there is none. */
export function joules(value, u) {
  if (value === null || value === undefined) return UNKNOWN;
  if (u === null || u === undefined || u === 0) return si(value, "J", 4);
  const power = Math.min(3, Math.max(-9, exponent(value || u)));
  const places = Math.min(9, Math.max(0, 1 - Math.floor(Math.log10(u / 10 ** power))));
  return `${fixed(value / 10 ** power, places)} ± ${(u / 10 ** power).toFixed(places)}${THIN}${PREFIXES[power]}J`.replaceAll("-", "−");
}

/** The phase that most of a span lies in, and how many others it touches. Phases with energies of commands come first, if there is more
 * than a corner in the span. */
export function phaseOf(phases, begin, end) {
  const touched = phases.map((phase) => ({ phase, ticks: Math.min(end, phase.end) - Math.max(begin, phase.begin) })).filter(({ ticks }) => ticks > 0);
  if (touched.length === 0) return { phase: null, others: 0 };
  const told = touched.filter(({ phase, ticks }) => phase.classes.length && (ticks > CORNER * (end - begin) || ticks === phase.end - phase.begin));
  const most = (told.length ? told : touched).reduce((one, other) => (other.ticks > one.ticks ? other : one));
  return { phase: most.phase, others: touched.length - 1 };
}

/** The classes that a command may be in, among its phase's classes: one opcode and size has two if some commands are sequential. */
export function classesOf(row, classes) {
  if (row.admin) return [];
  const own = row.bytes ? `${row.name} ${sizeText(row.bytes)}` : row.name;
  const parts = (one) => one.name.split(" + ");
  const fits = (test) => classes.filter((one) => parts(one).some(test));
  const ranged = (text) => {
    const most = text.startsWith(`${row.name} up to `) ? bytesOf(text.slice(`${row.name} up to `.length).split(",")[0]) : 0;
    return row.bytes <= most && row.bytes > most / 2;
  };
  for (const test of [(text) => text === own || text.startsWith(`${own}, `), ranged, (text) => text === `${row.name}, other sizes`]) {
    const found = fits(test);
    if (found.length) return found;
  }
  return [];
}

/** @type {[string, number][]} units of sizes, with their bytes */
const UNITS = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];

function sizeText(bytes) {
  const [unit, scale] = UNITS.find(([, size]) => bytes >= size && bytes % size === 0) ?? ["B", 1];
  return `${bytes / scale} ${unit}`;
}

function bytesOf(text) {
  const [number, unit] = text.split(" ");
  return Number(number) * (UNITS.find(([name]) => name === unit)?.[1] ?? 1);
}

/** Colours of the parts of a stack, by their names. */
function partColour(name) {
  return { idle: colours.captures[6], reads: colours.read, writes: colours.write, "put off": colours.captures[3], "mixed, other": colours.other }[name] ?? colours.failed;
}

/** Lines about a picked command: the energy of a command of its class. */
export function commandLines(row, source) {
  const { energy } = source;
  if (!energy || row === null || row.admin) return [];
  const start = row.doorbell ?? row.fetch ?? row.cqe;
  const { phase } = phaseOf(energy.phases, start, start + 1);
  const found = phase ? classesOf(row, phase.classes) : [];
  const waking = phase?.kind === "wake" ? ", with the waking in it" : "";
  const lines = found.map((one) => [`a ${one.name}`, `${joules(one.j, one.u_j)}${waking}`, { "data-class": one.name, title: whyNot(one) }]);
  const lone = energy.alone.filter(({ name, j }) => j !== null && found.some((one) => one.name === name));
  return [...lines, ...lone.map(({ name, j, u_j: u }) => [`${name}, alone`, joules(j, u), { "data-alone": name }])];
}

function whyNot(one) {
  return one.note || (one.u_j === null ? one.absent || "no interval" : "k = 2, above idle, one command of this class in this phase");
}

export class EnergyPanel {
  /** @param {() => void} work called where the capture is to be worked out */
  constructor(work) {
    this.work = work;
  }

  /** @param {any} source @param {{begin: number, end: number}} chosen */
  show(source, chosen) {
    const section = $("energy");
    section.hidden = source.about.live || !(source.about.has.rail || source.about.has.commands);
    if (section.hidden) return;
    const place = part(section, "div");
    section.dataset.state = source.energy ? "shown" : source.energyState;
    if (!source.energy) return place.replaceChildren(...this.#instead(source));
    const { states, phases } = source.energy;
    const key = `${section.dataset.state} ${source.k} ${chosen.begin} ${chosen.end} ${colours.dark}`;
    if (key === this.key) return;
    this.key = key;
    const whole = chosen.begin <= source.begin && chosen.end >= source.end;
    place.replaceChildren(...this.#states(states, chosen, whole), ...this.#phase(phases, chosen));
  }

  #instead(source) {
    this.key = null;
    const { commands, rail } = source.about;
    if (source.energyState === "working") return [make("p", "Working out power states and energies…")];
    if (source.energyState === "failed") return [make("p", source.energyError, { class: "warn" })];
    const button = make("button", "Work out", { type: "button", id: "energy-go" });
    button.addEventListener("click", () => this.work());
    const text = make("p", `Power states and what one command costs: reads all ${count(commands)} commands${rail ? ` and ${count(rail.samples)} samples` : ""}. `);
    text.append(button);
    return [text];
  }

  /** Shares of the selection's time; of all of the capture those that reports have, whatever is listed. */
  #states(states, { begin, end }, whole) {
    if (states.absent) return [make("p", `No power states: ${states.absent}.`)];
    const found = times(states.spans, begin, end);
    const unlisted = states.total > states.spans.length && !whole && end > states.spans.at(-1).end;
    if (found.length === 0) return [];
    const list = make("dl");
    for (const one of found) {
      const name = make("dt");
      const swatch = make("i");
      swatch.style.background = one.look === "unknown" ? "none" : stateColour(one.look);
      swatch.className = one.look === "unknown" ? "swatch unknown" : "swatch";
      name.append(swatch, one.label);
      const share = 100 * (whole ? states.share[one.label] : one.ticks / (end - begin));
      const text = `${unlisted ? "≥ " : ""}${share >= 99.95 ? "100" : share.toPrecision(share < 1 ? 1 : 3)} %${one.probability === null ? "" : `, sure to ${percent(one.probability)}`}`;
      list.append(name, make("dd", text, { "data-state": one.label, "data-share": share }));
    }
    const more = states.total > states.spans.length ? [make("p", `The first ${count(states.spans.length)} of ${count(states.total)} spans.`)] : [];
    return [list, ...more];
  }

  #phase(phases, { begin, end }) {
    const { phase, others } = phaseOf(phases, begin, end);
    if (!phase) return [];
    const title = make("h3", phase.name, { title: phase.name });
    if (others) title.append(make("small", ` and ${others} more in view`));
    /** @type {HTMLElement[]} */
    const made = [title];
    if (phase.absent) return [...made, make("p", `No energy of commands: ${phase.absent}.`)];
    if (phase.stack) made.push(...this.#stack(phase.stack));
    if (phase.classes.length) made.push(this.#classes(phase.classes));
    return made;
  }

  #stack({ total_j: total, unexplained_j: unexplained, parts }) {
    const whole = parts.reduce((sum, { j }) => sum + j, 0) || 1;
    const bar = make("div", undefined, { class: "stack", role: "img", "aria-label": "Where the energy of the phase went" });
    const list = make("dl", undefined, { class: "parts" });
    list.append(make("dt", "energy of the phase"), make("dd", si(total, "J", 4), { "data-part": "all" }));
    const shown = parts.filter(({ name }) => !name.startsWith("unexplained"));
    for (const { name, j } of parts) {
      const piece = make("i", undefined, { title: `${name}: ${si(j, "J")}` });
      piece.style.cssText = `width:${((100 * j) / whole).toFixed(3)}%;background:${partColour(name)}`;
      bar.append(piece);
    }
    for (const { name, j } of [...shown, { name: "unexplained", j: unexplained }]) {
      const term = make("dt");
      const swatch = make("i", undefined, { class: "swatch" });
      swatch.style.background = partColour(name);
      term.append(swatch, name);
      const share = total ? ` (${fixed((100 * j) / total, 1)} %)` : "";
      list.append(term, make("dd", `${j < 0 ? "−" : ""}${si(Math.abs(j), "J")}${share.replace("-", "−")}`, { "data-part": name, "data-value": j }));
    }
    return [bar, list];
  }

  #classes(classes) {
    const table = make("table", undefined, { id: "energy-classes" });
    const [head, body] = [make("thead"), make("tbody")];
    const row = (tag, cells) => {
      const line = make("tr");
      line.append(...cells.map((cell) => make(tag, cell)));
      return line;
    };
    head.append(row("th", ["one command", "energy", "depth"]));
    for (const one of classes) {
      const line = row("td", [one.name, `${joules(one.j, one.u_j)}${one.u_j === null ? ", no interval" : ""}${one.lost ? " !" : ""}`, one.depth]);
      line.cells[0].title = one.name;
      line.cells[1].title = [whyNot(one), one.lost ? "records were lost under it" : ""].filter(Boolean).join("; ");
      Object.assign(line.dataset, { class: one.name, j: one.j, u: one.u_j });
      body.append(line);
    }
    table.append(head, body);
    return table;
  }
}
