/** Going to the next or previous slow command, wake-up, gap, phase, event, power state, or command as searched. */

import { percent } from "./states.js";
import { count, instant, parseInteger, parseSeconds, si } from "./units.js";

/** In place of a status: any but success. */
const FAILED = -1;
const $ = (id) => document.getElementById(id);

export class Search {
  /** @param {object} page `source()`, `view()`, `found(span, what)` shows it, `say(text)` */
  constructor(page) {
    this.page = page;
    this.found = null;
    $("next").addEventListener("click", () => this.jump($("jump").value, 1));
    $("previous").addEventListener("click", () => this.jump($("jump").value, -1));
    $("search-previous").addEventListener("click", () => this.jump("search", -1));
    $("search").querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.jump("search", 1);
    });
  }

  /** Another capture is shown: its classes. */
  renew(about) {
    this.found = null;
    const chosen = $("search-class").value;
    const options = about.classes.map(({ opcode, admin, name, count: many }) => new Option(`${name} (${count(many)})`, `${opcode},${admin ? 1 : 0}`));
    $("search-class").replaceChildren(new Option("any", ""), ...options);
    $("search-class").value = options.some(({ value }) => value === chosen) ? chosen : "";
  }

  /**
   * @param {"slow"|"search"|"wake-up"|"gap"|"phase"|"event"|"state"} what
   * @param {1|-1} direction
   */
  async jump(what, direction) {
    if (this.asking) return;
    this.asking = true;
    if ([...$("jump").options].some(({ value }) => value === what)) $("jump").value = what;
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
    const typed = parseSeconds($("search-above").value);
    if (typed !== null) return { above_s: typed };
    const io = this.page.source().about.classes.filter(({ admin, p99_s: p99 }) => !admin && p99);
    return { above_s: io.length ? Number(Math.max(...io.map(({ p99_s: p99 }) => p99)).toPrecision(2)) : 1e-3 };
  }

  #searched() {
    const [opcode, admin] = $("search-class").value.split(",");
    const failed = $("search-status").value.trim().toLowerCase() === "failed";
    return {
      opcode, admin,
      above_s: parseSeconds($("search-above").value),
      slba: parseInteger($("search-slba").value, "LBA"),
      status: failed ? FAILED : parseInteger($("search-status").value, "Status"),
      qid: parseInteger($("search-qid").value, "Queue"),
      cid: parseInteger($("search-cid").value, "CID"),
    };
  }
}
