/** One capture of the page: its description, and its answers in the page's ticks. */

import { ask } from "./api.js";
import { INSTANTS } from "./fields.js";

/** Keys of answers that are ticks. */
const TICKS = ["t", "t_edges", "begin", "end", ...INSTANTS.map(([key]) => key)];

export class Source {
  /**
   * @param {number} k its number at the server
   * @param {any} about answer of `capture`
   * @param {any} first the same of the first capture, which gives the page's ticks
   */
  constructor(k, about, first) {
    this.k = k;
    this.first = first;
    /** @type {any} answer of `capture` */
    this.about = about;
    this.shift = 0;
    this.ratio = 1;
    this.begin = 0;
    this.end = 0;
    /** @type {Map<string, Promise<any>>} */
    this.wholes = new Map();
    this.take(about);
  }

  /** A newer answer of `capture`. */
  take(about) {
    this.about = about;
    this.wholes = new Map();
    this.energy = null; // answer of `energy`
    this.energyState = "unasked"; // then working, shown or failed
    this.shift = about.align ?? 0;
    this.ratio = about.tick_s / this.first.tick_s;
    this.plain = this.shift === 0 && this.ratio === 1;
    this.begin = this.toPage(about.begin);
    this.end = this.toPage(about.end);
    this.phases = about.phases.map((phase) => ({ ...phase, begin: this.toPage(phase.begin), end: this.toPage(phase.end) }));
  }

  toPage(tick) {
    return (tick - this.shift) * this.ratio;
  }

  toCapture(tick) {
    return tick / this.ratio + this.shift;
  }

  /** Ask for a span, given and answered in the page's ticks. */
  async ask(what, /** @type {Record<string, any>} */ { begin, end, at, ...more } = {}) {
    const span = {
      begin: begin === undefined ? undefined : Math.floor(this.toCapture(begin)),
      end: end === undefined ? undefined : Math.ceil(this.toCapture(end)),
      at: at === undefined ? undefined : Math.round(this.toCapture(at)),
    };
    const answer = await ask(`${this.k}/${what}`, { ...span, ...more });
    return this.plain ? answer : this.#shifted(answer);
  }

  /**
   * The data of the whole capture, if it fits into one answer, which serves every view: asked once. Null where it does not fit.
   * @param {string} what
   * @param {any} parameters of the question for the whole capture
   * @param {(a: any) => boolean} fits whether an answer holds everything
   */
  async whole(what, parameters, fits) {
    if (!this.wholes.has(what)) {
      const asked = this.ask(what, parameters).then((answer) => (fits(answer) ? answer : null));
      asked.catch(() => this.wholes.delete(what));
      this.wholes.set(what, asked);
    }
    return this.wholes.get(what);
  }

  /** Power states and energies of all of the capture, once; true where they have come. */
  async work() {
    if (this.energyState === "working" || this.energy) return Boolean(this.energy);
    this.energyState = "working";
    const { about } = this;
    try {
      const answer = await this.ask("energy");
      if (about !== this.about) return false; // the capture has been completed meanwhile
      this.energy = answer;
      this.energyState = "shown";
    } catch (error) {
      this.energyState = "failed";
      this.energyError = error.message;
    }
    return Boolean(this.energy);
  }

  #shifted(value) {
    if (Array.isArray(value)) return value.map((item) => this.#shifted(item));
    if (value === null || typeof value !== "object") return value;
    const moved = {};
    for (const [key, item] of Object.entries(value)) {
      if (TICKS.includes(key)) moved[key] = Array.isArray(item) ? item.map((x) => (x === null ? null : this.toPage(x))) : item === null ? null : this.toPage(item);
      else if (key === "width") moved[key] = item * this.ratio;
      else if (["link_state", "clkreq", "perst"].includes(key)) moved[key] = item.map(([tick, level]) => [this.toPage(tick), level]);
      else moved[key] = this.#shifted(item);
    }
    return moved;
  }
}
