/** The parts of every row: a place on the page, a name with the values under the pointer, and a text for readers who do not see it. */

/**
 * A span that rows are asked for.
 * @typedef {any} Wish
 * @property {import("./source.js").Source} source the capture that is shown
 * @property {import("./source.js").Source[]} sources all captures
 * @property {number} begin first tick of the view
 * @property {number} end
 * @property {number} width of the plots in pixels
 */

/**
 * A row is built once and drawn anew for each view. Subclasses give `build`, `draw`, `available` and, with a `subject`, `ask` and `take`.
 */
export class Row {
  /** @type {uPlot} made by `build` */
  chart;

  /**
   * @param {string} name of the row in the fragment
   * @param {string} title
   * @param {number} weight of its height among the rows
   */
  constructor(name, title, weight) {
    this.name = name;
    this.title = title;
    this.weight = weight;
    /** Name of the row's question. Rows of one question draw the same answer; "" without one. */
    this.subject = "";
    /** @type {Wish|null|undefined} the span of the answer that is drawn; null: the whole capture; undefined: none is drawn */
    this.holds = undefined;
    /** @type {string|null} */
    this.said = null;
    this.element = document.createElement("section");
    this.element.className = "row";
    this.element.dataset.row = name;
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", title);
    this.plot = document.createElement("div");
    this.plot.className = "plot";
    this.chip = document.createElement("div");
    this.chip.className = "chip";
    this.element.append(this.plot, this.chip);
    this.say([]);
  }

  /** Draws the row for the first time; the element is on the page. */
  build() {}

  /** Whether a capture has data for this row. @param {import("./source.js").Source} _source @returns {boolean} */
  available(_source) {
    return true;
  }

  /** Asks the server for the data of a span. @param {Wish} _wish @returns {Promise<any>} null where there is nothing to draw */
  async ask(_wish) {
    return null;
  }

  /** Draws an answer. @param {any} _answer @param {Wish} _wish */
  take(_answer, _wish) {}

  /** The row in words, for screen readers. @returns {string} */
  text() {
    return "";
  }

  /** Fill the chip: the title, then pieces of text, each with a colour or none. @param {((string|null|undefined)[]|null)[]} pieces */
  say(pieces) {
    // most pictures leave it as it is, and an element that is replaced costs a layout of the page
    const said = JSON.stringify(pieces);
    if (said === this.said && this.chip.hasChildNodes()) return;
    this.said = said;
    const title = document.createElement("b");
    title.textContent = this.title;
    this.chip.replaceChildren(title, ...pieces.map((one) => {
      if (one === null) return "";
      const [text, colour] = one;
      const piece = document.createElement("span");
      if (colour) {
        const swatch = document.createElement("i");
        swatch.style.background = colour;
        piece.append(swatch);
      }
      piece.append(text ?? "");
      return piece;
    }));
  }

  /** Charts of this row. @returns {uPlot[]} */
  get charts() {
    return this.chart ? [this.chart] : [];
  }

  /** The view has changed: the data that are there, at their new place. */
  move() {
    for (const chart of this.charts) chart.redraw();
  }

  /** Takes the place that the layout gives. */
  fit() {
    const { clientWidth: width, clientHeight: height } = this.plot;
    if (width < 30 || height < 16) return;
    for (const chart of this.charts) chart.setSize({ width, height });
  }

  /** Times within reach that a cursor may snap to. @param {number} _t @param {number} _reach @returns {number[]} ticks */
  edges(_t, _reach) {
    return [];
  }

  /** Describes the item under the pointer at a place of the plot, for the tip. @param {number} _x @param {number} _y @returns {?string[]} lines */
  tip(_x, _y) {
    return null;
  }

  /** Called with the tick under the pointer; null where there is none, or where the row's answer does not hold that tick. @param {?number} _t */
  readout(_t) {}

  /** Sets the text for screen readers. */
  label(text) {
    this.element.setAttribute("aria-label", `${this.title}: ${text}`);
  }
}

/** Index of the last of the ascending `values` that is not above `x`; -1 where none is. */
export function lastAt(values, x) {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Index of the value of the ascending `values` that is nearest to `x`; -1 of none. */
export function nearest(values, x) {
  const before = lastAt(values, x);
  if (before < 0) return values.length ? 0 : -1;
  return before + 1 < values.length && values[before + 1] - x < x - values[before] ? before + 1 : before;
}
