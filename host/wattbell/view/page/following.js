/** A recording on the page: the view follows its end, and the complete capture takes its place. */

import { ask } from "./api.js";
import { $ } from "./dom.js";
import { watch } from "./live.js";
import { showAbout } from "./panel.js";

/** Least time between two descriptions of the recording, in milliseconds. */
const RENEW_MS = 2000;

export class Following {
  on = false;

  /** @param {import("./page.js").Page} page */
  constructor(page) {
    this.page = page;
  }

  /** Watches the recording, if there is one, until it has ended. */
  async start() {
    const { page } = this;
    const { source, stack } = page;
    if (!source.about.live) return;
    stack.phases.draw(source.phases, { count: 0, rows: [] });
    $("follow").hidden = false;
    this.follow(page.state.end >= page.extent.end);
    let renewed = performance.now();
    await watch(source, async (latest) => {
      if (performance.now() - renewed > RENEW_MS) {
        renewed = performance.now();
        const had = stack.visible().join();
        source.take(await ask(`${source.k}/capture`));
        if (stack.visible().join() !== had) page.arrange();
        showAbout(source.about);
        page.figures.askOverview();
      }
      source.end = Math.max(source.end, latest.t ?? 0);
      this.#grow();
    }, () => this.#ended(source));
  }

  /** @param {import("./source.js").Source} source */
  async #ended(source) {
    const { page } = this;
    const origin = source.about.origin_tick;
    const whole = page.seesAll;
    source.take(await ask(`${source.k}/capture`));
    $("follow").hidden = true;
    this.#grow();
    this.on = false;
    if (whole) page.store.set(page.extent);
    else this.#shift(origin - source.about.origin_tick);
    page.introduce();
    page.arrange();
    page.figures.askOverview();
    page.stack.ask();
    page.figures.ask();
    page.words.say("The recording has ended.");
  }

  /** Takes the new end of the capture. */
  #grow() {
    const { page } = this;
    const whole = page.seesAll;
    page.measureExtent();
    const { begin, end } = page.state;
    if (!this.on) return page.figures.overview.move(begin, end);
    const long = whole ? page.extent.end - page.extent.begin : end - begin;
    page.store.set({ begin: page.extent.end - long, end: page.extent.end });
  }

  /** Moves the view with its content: the complete capture may count from another tick. @param {number} ticks */
  #shift(ticks) {
    if (ticks === 0) return;
    const { begin, end, a, b } = this.page.state;
    this.page.store.set({ begin: begin + ticks, end: end + ticks, a: a === null ? null : a + ticks, b: b === null ? null : b + ticks });
  }

  /** @param {boolean} on */
  follow(on) {
    this.on = on;
    $("follow").setAttribute("aria-pressed", String(on));
    if (on) this.#grow();
  }
}
