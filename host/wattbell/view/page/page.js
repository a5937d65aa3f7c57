/** The page: its captures and its state, and the parts that show them. */

import { ask, Feed } from "./api.js";
import { Busy } from "./busy.js";
import { Controls } from "./controls.js";
import { $ } from "./dom.js";
import { Figures } from "./figures.js";
import { Following } from "./following.js";
import { Navigation } from "./navigation.js";
import { saving } from "./saving.js";
import { Search } from "./search.js";
import { Source } from "./source.js";
import { Stack } from "./stack.js";
import { Store } from "./state.js";
import { choose, printed } from "./theme.js";
import { Words } from "./words.js";

/** Time without a change after which the address is rewritten, in milliseconds. */
const ADDRESS_MS = 400;
/** Time without a move after which the panel is asked for, in milliseconds. */
const PANEL_MS = 120;

export class Page {
  store = new Store();
  extent = { begin: 0, end: 1 };
  printing = false;
  /** The size that the page is arranged for. */
  #size = "";

  /** @param {any[]} abouts answers of `capture`, one for each capture */
  constructor(abouts) {
    this.sources = abouts.map((about, k) => new Source(k, about, abouts[0]));
    this.measureExtent();
    this.navigation = new Navigation(this);
    this.words = new Words(this);
    this.following = new Following(this);
    this.store.set(this.navigation.fragment());
    choose(this.state.theme);
    this.stack = new Stack(this);
    this.figures = new Figures(this);
    this.search = new Search({
      source: () => this.source, view: () => this.state, found: (span, kind) => this.navigation.goTo(span, kind), say: (text) => this.words.say(text),
    });
    this.busy = new Busy(() => this.stack.idle, () => this.figures.idle, { view: () => `${this.state.begin},${this.state.end}`, idle: () => this.#idle() });
    saving(() => this.figures.chosen(), () => this.source, (text) => this.words.say(text));
  }

  /** Shows the captures, and begins to listen. */
  start() {
    Feed.settled = () => this.busy.settled();
    new Controls(this);
    this.introduce();
    this.store.listen((changed) => this.#changed(changed));
    this.arrange();
    this.#moved();
    this.figures.askOverview();
    this.figures.ask();
    return this.following.start();
  }

  get state() {
    return this.store.state;
  }

  /** The capture that is shown: its commands, levels and figures. */
  get source() {
    return this.sources[this.state.shown];
  }

  get tickSeconds() {
    return this.sources[0].about.tick_s;
  }

  /** Whether the view is all of the capture. */
  get seesAll() {
    return this.state.begin === this.extent.begin && this.state.end === this.extent.end;
  }

  measureExtent() {
    const begin = Math.min(...this.sources.map((source) => source.begin));
    const end = Math.max(...this.sources.map((source) => source.end));
    this.extent = { begin, end: end > begin ? end : begin + 1e-3 / this.tickSeconds };
  }

  /** Describes the capture that is shown, in each place with words about it. */
  introduce() {
    this.words.introduce();
    this.search.renew(this.source.about);
    this.figures.showPicked();
    this.stack.drawStates();
  }

  /** Fits all to the window, after a change of its size or of the rows that are shown. */
  arrange() {
    this.stack.arrange();
    this.figures.fit();
  }

  /** Asks for energies of a light capture, once all else is drawn. */
  #idle() {
    const { about, energyState } = this.source;
    if (about.light && !about.live && about.end > about.begin && energyState === "unasked") this.figures.work();
  }

  /** @param {Set<string>} changed keys of the state */
  #changed(changed) {
    const any = (...keys) => keys.some((key) => changed.has(key));
    if (any("theme")) this.recolour();
    if (any("hidden")) {
      this.words.rowsMenu();
      this.arrange();
      this.stack.drawStates();
    }
    if (any("shown")) {
      this.stack.forget();
      this.introduce();
    }
    if (any("command")) this.figures.showPicked();
    if (any("begin", "end")) this.#moved();
    else if (any("shown", "hidden")) this.stack.ask();
    if (any("shown")) this.figures.askOverview();
    if (any("a", "b")) this.#cursorsMoved();
    if (any("a", "b", "shown", "histogram") || (any("begin", "end") && !this.figures.chosen().between)) {
      this.busy.later("panel", any("begin", "end", "a", "b") ? PANEL_MS : 0, () => this.figures.ask());
    }
    this.busy.later("fragment", ADDRESS_MS, () => this.navigation.keep());
  }

  #moved() {
    this.stack.move();
    this.figures.overview.move(this.state.begin, this.state.end);
  }

  #cursorsMoved() {
    const { a, b } = this.state;
    this.stack.placeCursors();
    $("cursors-zoom", HTMLButtonElement).disabled = a === null || b === null || a === b;
    $("cursors-clear", HTMLButtonElement).disabled = a === null && b === null;
    this.words.tellTime();
  }

  recolour() {
    choose(this.state.theme);
    this.#redraw();
  }

  #redraw() {
    this.stack.redraw();
    this.figures.redraw();
    this.words.paintCaptures();
  }

  resized() {
    const size = `${$("stage").clientWidth} ${innerHeight}`;
    if (size === this.#size || this.printing) return;
    this.#size = size;
    this.arrange();
    this.stack.ask();
  }

  /** Draws dark on white, as wide as the sheet, whatever the screen has. @param {boolean} on */
  print(on) {
    this.printing = on;
    document.documentElement.classList.toggle("printing", on);
    if (on) printed();
    else choose(this.state.theme);
    this.arrange();
    this.#redraw();
  }
}

/** The page of the captures that the server has. */
export async function open() {
  const captures = await ask("captures");
  return new Page(await Promise.all(captures.map(({ k }) => ask(`${k}/capture`))));
}
