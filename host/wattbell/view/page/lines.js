/** Lines over all rows: the cursors, the pointer's line, the span being chosen. Moved without drawing a chart anew. */

import { shared } from "./chart.js";

export class Lines {
  constructor(host, tip) {
    this.host = host;
    this.tip = tip;
    this.cross = host.querySelector(".cross");
    this.selection = host.querySelector(".selection");
    this.cursors = Object.fromEntries(["a", "b"].map((name) => [name, host.querySelector(`[data-cursor="${name}"]`)]));
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

  /** Lines of text beside the pointer. */
  tell(lines, x, y, width) {
    this.tip.hidden = lines === null;
    if (lines === null) return;
    this.tip.replaceChildren(...lines.map((text) => {
      const line = document.createElement("div");
      line.textContent = text;
      return line;
    }));
    const right = x > width / 2;
    this.tip.style.left = right ? "" : `${x + 14}px`;
    this.tip.style.right = right ? `${width - x + 14}px` : "";
    this.tip.style.top = `${y + 12}px`;
  }
}
