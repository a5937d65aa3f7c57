/** The whole capture in a strip, with the view in it as a window that can be moved. */

import { NO_SELECTION } from "./chart.js";
import { colours } from "./theme.js";

export class Overview {
  /** @param {HTMLElement} host @param {(a: number, b: number) => void} look sets the view */
  constructor(host, look) {
    this.host = host;
    this.look = look;
    /** @type {?number} first tick of the view */
    this.begin = null;
    /** @type {?number} last tick of the view */
    this.end = null;
    this.extent = { begin: 0, end: 1 };
    this.plot = document.createElement("div");
    this.plot.className = "plot";
    this.window = document.createElement("div");
    this.window.className = "window";
    host.append(this.plot, this.window);
    this.chart = new uPlot({
      width: Math.max(60, host.clientWidth), height: Math.max(16, host.clientHeight),
      padding: [2, 0, 2, 0],
      cursor: { show: false }, select: NO_SELECTION, legend: { show: false },
      scales: { x: { time: false, auto: false, range: () => [this.extent.begin, this.extent.end] } },
      axes: [{ show: false }, { show: false }],
      series: [{}, { stroke: () => colours.muted, width: 1, fill: () => `${colours.muted}30`, points: { show: false } }],
    }, [[0, 1], [null, null]], this.plot);
    host.addEventListener("pointerdown", (event) => this.#grab(event));
  }

  /** @param {number[]} t @param {number[]} values of the whole capture, whatever the capture has */
  draw(extent, t, values) {
    this.extent = extent;
    this.chart.setData([t, values]);
    this.move(this.begin ?? extent.begin, this.end ?? extent.end);
  }

  move(begin, end) {
    this.begin = begin;
    this.end = end;
    const long = this.extent.end - this.extent.begin;
    const [left, right] = [begin, end].map((tick) => Math.min(1, Math.max(0, (tick - this.extent.begin) / long)) * 100);
    this.window.style.left = `${left}%`;
    this.window.style.width = `max(3px, ${right - left}%)`;
    this.window.hidden = left <= 0 && right >= 100;
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (width > 30 && height > 8) this.chart.setSize({ width, height });
  }

  #grab(event) {
    if (event.button > 0) return;
    event.preventDefault();
    this.host.setPointerCapture(event.pointerId);
    const wide = this.host.clientWidth;
    const at = (moved) => this.extent.begin + ((moved.clientX - this.host.getBoundingClientRect().left) / wide) * (this.extent.end - this.extent.begin);
    const [first, last] = [this.begin ?? this.extent.begin, this.end ?? this.extent.end];
    const half = (last - first) / 2;
    const whole = this.window.hidden;
    const start = at(event);
    const inside = start >= first && start <= last && !whole;
    const shift = inside ? start - (first + last) / 2 : 0;
    /** @type {?[number, number]} */
    let chosen = null;
    const move = (moved) => {
      if (whole) {
        // nothing to move yet: what is drawn over becomes the view
        chosen = [Math.min(start, at(moved)), Math.max(start, at(moved))];
      } else {
        const middle = at(moved) - shift;
        this.look(middle - half, middle + half);
      }
    };
    if (!inside && !whole) move(event);
    const end = () => {
      this.host.removeEventListener("pointermove", move);
      if (chosen && chosen[1] - chosen[0] > (3 / wide) * (this.extent.end - this.extent.begin)) this.look(...chosen);
    };
    this.host.addEventListener("pointermove", move);
    this.host.addEventListener("pointerup", end, { once: true });
    this.host.addEventListener("pointercancel", end, { once: true });
  }
}
