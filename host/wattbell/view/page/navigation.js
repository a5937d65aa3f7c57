/** The view's way through the capture: zoom, pan, back, and to an item that was found. */

import { fromFragment, toFragment } from "./state.js";

/** Least span of a view, in seconds. */
const LEAST_S = 2e-8;
/** A view that stood still for so long can be gone back to, in milliseconds. */
const STILL_MS = 600;
/** Views that can be gone back to. */
const MOST_BEFORE = 200;
/** Length of a view around an item, as a multiple of the item's. */
const AIR = { command: 5, phase: 1.15, gap: 5 };

export class Navigation {
  /** @type {[number, number][]} views to go back to */
  #before = [];
  #remembered = -Infinity;

  /** @param {import("./page.js").Page} page */
  constructor(page) {
    this.page = page;
  }

  /** The state that the address asks for. */
  fragment() {
    const { extent, sources } = this.page;
    const asked = fromFragment(location.hash, extent, sources.length);
    return { ...asked, ...this.within(asked.begin, asked.end) };
  }

  /** Keeps the state in the address. */
  keep() {
    const fragment = toFragment(this.page.state, this.page.extent);
    if (location.hash.replace(/^#/, "") !== fragment) history.replaceState(null, "", `${location.pathname}${fragment ? `#${fragment}` : ""}`);
  }

  /** A view as it can be: no less than a few ticks, no more than there is. @param {number} begin @param {number} end ticks */
  within(begin, end) {
    const { extent, tickSeconds } = this.page;
    const least = Math.max(LEAST_S / tickSeconds, 2);
    let long = Math.min(extent.end - extent.begin, Math.max(least, end - begin));
    let from = (begin + end) / 2 - long / 2;
    from = Math.max(extent.begin, Math.min(extent.end - long, from));
    if (long > 1000) [from, long] = [Math.round(from), Math.round(long)];
    return { begin: from, end: from + long };
  }

  /** Sets the view. @param {number} begin @param {number} end ticks */
  look(begin, end, { remember = true } = {}) {
    const { extent, following, store } = this.page;
    const view = this.within(begin, end);
    if (remember) this.#remember();
    if (following.on && Math.abs(view.end - extent.end) > (view.end - view.begin) * 0.02) following.follow(false);
    store.set(view);
  }

  #remember() {
    const now = performance.now();
    if (now - this.#remembered > STILL_MS) {
      this.#before.push([this.page.state.begin, this.page.state.end]);
      if (this.#before.length > MOST_BEFORE) this.#before.shift();
    }
    this.#remembered = now;
  }

  back() {
    const view = this.#before.pop();
    if (view) this.look(...view, { remember: false });
  }

  /** Zooms at the pointer, or in the middle. @param {number} factor of the view's length */
  zoom(factor) {
    const { begin, end } = this.page.state;
    const at = this.page.stack.pointed ?? (begin + end) / 2;
    this.look(at - (at - begin) * factor, at + (end - at) * factor);
  }

  /** @param {number} share of the view's length */
  pan(share) {
    const { begin, end } = this.page.state;
    this.look(begin + share * (end - begin), end + share * (end - begin));
  }

  /** Shows all of the capture. */
  whole() {
    this.look(this.page.extent.begin, this.page.extent.end);
  }

  /** Shows the span between the cursors, with a margin. */
  toCursors() {
    const { begin, end, between } = this.page.figures.chosen();
    if (between && end > begin) this.look(begin - (end - begin) * 0.05, end + (end - begin) * 0.05);
  }

  /**
   * Shows the item found: in the present view if it is visible there, else in a view as wide as it needs.
   * @param {{begin: number, end: number, row?: object}} span ticks
   * @param {string} kind
   */
  goTo(span, kind) {
    const { store, tickSeconds, state: { begin, end } } = this.page;
    const size = Math.max(0, span.end - span.begin);
    const wide = size > 0 ? size * (AIR[kind] ?? 5) : Math.min(end - begin, 0.01 / tickSeconds);
    const keep = kind !== "phase" && end - begin >= wide && end - begin <= wide * 40;
    const long = keep ? end - begin : Math.max(wide, (LEAST_S * 4) / tickSeconds);
    const middle = (span.begin + span.end) / 2;
    this.look(middle - long / 2, middle + long / 2);
    if (span.row) store.set({ command: span.row });
  }
}
