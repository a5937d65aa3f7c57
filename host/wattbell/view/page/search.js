/** Going to the next or previous slow command, wake-up, gap, phase, event, power state, or command as searched. */

import { $, part } from "./dom.js";
import { TITLES } from "./fields.js";
import { percent } from "./states.js";
import { count, instant, parseInteger, parseSeconds, si } from "./units.js";

/** @typedef {"slow"|"search"|"wake-up"|"gap"|"phase"|"event"|"state"} What */

/** In place of a status: any but success. */
const FAILED = -1;

/** Facts of a command that can be searched for. */
const FIELDS = ["slba", "status", "qid", "cid"];
/** A title at the beginning of a sentence. @param {string} title */
const begun = (title) => title[0].toUpperCase() + title.slice(1);
/** Text of a field of the search. @param {string} name */
const given = (name) => $(`search-${name}`, HTMLInputElement).value;

export class Search {
  /** @param {any} page `source()`, `view()`, `found(span, what)` shows it, `say(text)` */
  constructor(page) {
    this.page = page;
    this.which = $("jump", HTMLSelectElement);
    this.kind = $("search-class", HTMLSelectElement);
    /** @type {any} */
    this.found = null;
    for (const key of FIELDS) part($("search"), `span[data-field="${key}"]`).textContent = TITLES[key];
    $("next").addEventListener("click", () => this.jump(this.#chosen, 1));
    $("previous").addEventListener("click", () => this.jump(this.#chosen, -1));
    $("search-previous").addEventListener("click", () => this.jump("search", -1));
    part($("search"), "form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.jump("search", 1);
    });
  }

  get #chosen() {
    return /** @type {What} */ (this.which.value);
  }

  /** Another capture is shown: its classes. */
  renew(about) {
    this.found = null;
    const chosen = this.kind.value;
    const options = about.classes.map(({ opcode, admin, name, count: many }) => new Option(`${name} (${count(many)})`, `${opcode},${admin ? 1 : 0}`));
    this.kind.replaceChildren(new Option("any", ""), ...options);
    this.kind.value = options.some(({ value }) => value === chosen) ? chosen : "";
  }

  /**
   * @param {What} what
   * @param {1|-1} direction
   */
  async jump(what, direction) {
    if (this.asking) return;
    this.asking = true;
    if ([...this.which.options].some(({ value }) => value === what)) this.which.value = what;
    try {
      const wish = what === "slow" ? this.#slow() : what === "search" ? this.#searched() : {};
      const kind = what === "slow" || what === "search" ? "command" : what;
      const answer = what === "state" ? this.#state(direction) : await this.page.source().ask("find", { what: kind, at: this.#from(what, direction), direction, row: this.#beside(kind), ...wish });
      const name = what === "slow" ? `command slower than ${si(wish.above_s, "s")}` : what === "search" ? "such command" : what === "state" ? "power state" : what;
      if (answer === null) {
        this.page.say(`No ${direction > 0 ? "further" : "earlier"} ${name}.`);
        return;
      }
      this.found = { what, begin: answer.begin, row: answer.row?.index };
      const { tick_s: tickSeconds } = this.page.source().first;
      this.page.found(answer, kind);
      this.page.say(`${answer.text} at ${instant(answer.begin, tickSeconds)}`);
    } catch (error) {
      this.page.say(error.message);
    } finally {
      this.asking = false;
    }
  }

  /** The next span of a power state, which the page has. */
  #state(direction) {
    const { energy } = this.page.source();
    if (!energy) throw new Error("Power states are not worked out yet: the panel has them.");
    const from = this.#from("state", direction);
    const { spans } = energy.states;
    const span = direction > 0 ? spans.find(({ begin }) => begin > from) : spans.findLast(({ begin }) => begin < from);
    return span ? { begin: span.begin, end: span.end, text: [span.label, percent(span.probability)].filter(Boolean).join(" ") } : null;
  }

  /** Commands that begin at one tick are distinguished by their number. */
  #beside(kind) {
    const { begin, end } = this.page.view();
    return kind === "command" && this.found && this.found.begin >= begin && this.found.begin <= end ? this.found.row : undefined;
  }

  /** Searches from the last item found, while it is in view; else from the view's edge. */
  #from(what, direction) {
    const { begin, end } = this.page.view();
    if (this.found?.what === what && this.found.begin >= begin && this.found.begin <= end) return this.found.begin;
    return direction > 0 ? begin : end;
  }

  /** Slow: above the typed time, else above the greatest p99 of the I/O classes of the whole capture. */
  #slow() {
    const typed = parseSeconds(given("above"));
    if (typed !== null) return { above_s: typed };
    const io = this.page.source().about.classes.filter(({ admin, p99_s: p99 }) => !admin && p99);
    return { above_s: io.length ? Number(Math.max(...io.map(({ p99_s: p99 }) => p99)).toPrecision(2)) : 1e-3 };
  }

  #searched() {
    const [opcode, admin] = this.kind.value.split(",");
    const failed = given("status").trim().toLowerCase() === "failed";
    return {
      opcode, admin,
      above_s: parseSeconds(given("above")),
      ...Object.fromEntries(FIELDS.map((key) => [key, key === "status" && failed ? FAILED : parseInteger(given(key), begun(TITLES[key]))])),
    };
  }
}
