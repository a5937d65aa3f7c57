/** Lines over all rows: the cursors, the pointer's line, the span being chosen. Moved without drawing a chart anew. */

import { shared } from "./chart.js";
import { make, part } from "./dom.js";

export class Lines {
  /** @param {HTMLElement} host @param {HTMLElement} tip */
  constructor(host, tip) {
    this.host = host;
    this.tip = tip;
    this.cross = part(host, "div.cross");
    this.selection = part(host, "div.selection");
    /** @type {Record<string, HTMLElement>} */
    this.cursors = Object.fromEntries(["a", "b"].map((name) => [name, part(host, `div[data-cursor="${name}"]`)]));
  }

  /** Cursors at their ticks (null: none). */
  place(cursors) {
    const long = shared.end - shared.begin;
    for (const [name, tick] of Object.entries(cursors)) {
      const line = this.cursors[name];
      const at = tick === null ? -1 : ((tick - shared.begin) / long) * this.host.clientWidth;
      line.hidden = tick === null || at < 0 || at > this.host.clientWidth;
      if (!line.hidden) line.style.transform = `translateX(${at}px)`;
    }
  }

  /** The pointer's line, null to hide it. */
  point(x) {
    this.cross.hidden = x === null || x < 0 || x > this.host.clientWidth;
    if (!this.cross.hidden) this.cross.style.transform = `translateX(${Math.round(x)}px)`;
  }

  /** The span that is being chosen, in pixels. */
  choose(from, to) {
    this.selection.hidden = from === null;
    if (from === null) return;
    this.selection.style.transform = `translateX(${Math.min(from, to)}px)`;
    this.selection.style.width = `${Math.abs(to - from)}px`;
  }

  /** Hides the tip. */
  hide() {
    this.tip.hidden = true;
  }

  /** Writes lines of text beside the pointer; null hides them. @param {?string[]} lines @param {number} x @param {number} y @param {number} width */
  tell(lines, x, y, width) {
    if (lines === null) return this.hide();
    this.tip.hidden = false;
    this.tip.replaceChildren(...lines.map((text) => make("div", text)));
    const right = x > width / 2;
    this.tip.style.left = right ? "" : `${x + 14}px`;
    this.tip.style.right = right ? `${width - x + 14}px` : "";
    this.tip.style.top = `${y + 12}px`;
  }
}
