/** Text of the page: the capture in words, notices, times, and the lists of captures and rows. */

import { $, make, part } from "./dom.js";
import { driveText, showAbout } from "./panel.js";
import { ROWS } from "./state.js";
import { captureColour } from "./theme.js";
import { clock, duration, instant, si } from "./units.js";

/** Time for which a passing line is shown, in milliseconds. */
const SAID_MS = 7000;

export class Words {
  #saying = 0;

  /** @param {import("./page.js").Page} page */
  constructor(page) {
    this.page = page;
  }

  /** Writes the time of the pointer, the time between the cursors, and the length of the view. */
  tellTime() {
    const { source, stack: { pointed }, tickSeconds, state: { begin, end, a, b } } = this.page;
    const pieces = [];
    const utc = source.about.utc_origin_s;
    if (pointed !== null) {
      const utcText = utc ? ` (${new Date((utc + source.toCapture(pointed) * source.about.tick_s) * 1000).toISOString().slice(0, 23).replace("T", " ")} UTC)` : "";
      pieces.push(["pointer", instant(Math.round(pointed), tickSeconds) + utcText]);
    }
    if (a !== null && b !== null) pieces.push(["B − A", duration(b - a, tickSeconds)]);
    const long = (end - begin) * tickSeconds;
    pieces.push(["view", long >= 60 ? clock(Math.round(long)) : si(long, "s", 4)]);
    $("time").replaceChildren(...pieces.flatMap(([name, text]) => [`${name} `, make("b", text), "   "]));
  }

  /** Shows a passing line to everybody; screen readers read it out. @param {string} text */
  say(text) {
    const place = document.getElementById("said") ?? $("notices").appendChild(make("div", undefined, { id: "said", class: "notice" }));
    place.replaceChildren(make("span", text));
    clearTimeout(this.#saying);
    this.#saying = window.setTimeout(() => place.remove(), SAID_MS);
  }

  /** Shows a line that stays until it is closed. @param {string} text */
  notice(text) {
    const place = make("div", text, { class: "notice" });
    const close = make("button", "×", { "aria-label": "Close this line" });
    close.addEventListener("click", () => {
      place.remove();
      this.page.arrange();
    });
    place.append(close);
    $("notices").append(place);
  }

  /** Describes the capture that is shown. */
  introduce() {
    const { about } = this.page.source;
    document.title = `${about.name}${about.origin.mark ? ` (${about.origin.mark})` : ""} · Wattbell`;
    $("name").textContent = about.name;
    $("name").title = about.name;
    document.body.classList.toggle("recording", about.live);
    $("state").textContent = about.state;
    $("state").classList.toggle("warn", !["complete", "recording"].includes(about.state));
    $("drive").textContent = driveText(about.drive);
    $("origin").textContent = about.origin.mark;
    $("origin").title = about.origin.words;
    $("notices").replaceChildren();
    if (about.loss.length) this.notice(`Missing: ${about.loss.join("; ")}. Figures over a gap are of the rest.`);
    if (!about.live) {
      if (about.end <= about.begin) this.notice("Nothing was recorded: the capture has no length.");
      else if (!about.has.rail) this.notice("This capture has no rail: no power, current, voltage or energy.");
      if (about.end > about.begin && !about.has.commands) this.notice("This capture has no commands.");
    }
    showAbout(about);
    this.#captures();
    this.rowsMenu();
  }

  #captures() {
    const { sources, store, state } = this.page;
    $("captures").hidden = sources.length < 2;
    part($("captures"), "div").replaceChildren(...sources.map(({ about }, k) => {
      const [label, radio, swatch] = [make("label"), make("input", undefined, { type: "radio", name: "capture", value: k }), make("i")];
      radio.checked = k === state.shown;
      radio.addEventListener("change", () => store.set({ shown: k, command: null }));
      label.append(radio, swatch, about.origin.mark ? `${about.name} (${about.origin.mark})` : about.name);
      return label;
    }));
    this.paintCaptures();
  }

  paintCaptures() {
    $("captures").querySelectorAll("i").forEach((swatch, k) => {
      swatch.style.background = captureColour(k);
    });
  }

  /** Fills the menu of rows. */
  rowsMenu() {
    const { stack, state, store } = this.page;
    $("rows-list").replaceChildren(...ROWS.map(([name, title]) => {
      const [label, box] = [make("label"), make("input", undefined, { type: "checkbox" })];
      box.checked = !state.hidden.includes(name);
      box.disabled = !stack.has(name);
      box.addEventListener("change", () => store.set({ hidden: ROWS.map(([one]) => one).filter((one) => (one === name ? !box.checked : store.state.hidden.includes(one))) }));
      label.append(box, ` ${title}`);
      return label;
    }));
  }
}
