/** The rows: which rows are shown, their heights, their questions, and the item under the pointer. */

import { Feed } from "./api.js";
import { FONT, gutter, shared } from "./chart.js";
import { CommandsRow } from "./commands.js";
import { $, penOf } from "./dom.js";
import { LevelsRow } from "./levels.js";
import { Lines } from "./lines.js";
import { LoadRow } from "./load.js";
import { PhasesRow } from "./phases.js";
import { RailRow } from "./rail.js";
import { ROWS } from "./state.js";
import { StatesRow } from "./states.js";
import { timeTicks } from "./timeaxis.js";

/** @typedef {import("./row.js").Row} Row */
/** @typedef {import("./row.js").Wish} Wish */

/** Pixels to the right of the plots. */
const RIGHT = 8;
/** Height of the row at the top, in pixels. */
const TOP = 62;
/** Height of all rows on paper, in pixels. */
const PAPER = 535;
/** Distance from the pointer at which a cursor snaps, in pixels. */
const SNAP = 7;
const pen = penOf(document.createElement("canvas"));

/** Gaps of the whole capture if it has none, else of the view. */
async function wholeGaps({ source, begin, end, width }) {
  const none = await source.whole("gaps", { points: width }, (gaps) => gaps.length === 0);
  return none ?? source.ask("gaps", { begin, end, points: width });
}

export class Stack {
  /** @type {?{x: number, y: number}} place of the pointer on the stage; the tick below it follows the view */
  pointer = null;

  /** @param {import("./page.js").Page} page */
  constructor(page) {
    this.page = page;
    const many = page.sources.length;
    const ticks = () => page.tickSeconds;
    this.phases = new PhasesRow(ticks);
    this.commands = new CommandsRow("commands", "Commands", 2.2, ticks);
    this.states = new StatesRow("states", "Power states", 0.4, ticks);
    this.levels = new LevelsRow("levels", "Link and pins", 0.9, ticks);
    /** @type {Record<string, Row>} */
    this.rows = {
      power: new RailRow("power", "Power", "W", 1.5, many),
      current: new RailRow("current", "Current", "A", 0.9, many),
      voltage: new RailRow("voltage", "Voltage", "V", 0.8, many),
      load: new LoadRow("load", "MB/s", 1.1, many, page.tickSeconds),
      iops: new LoadRow("iops", "IOPS", 0.8, many, page.tickSeconds),
      depth: new LoadRow("depth", "Queue depth", 0.8, many, page.tickSeconds),
      commands: this.commands,
      states: this.states,
      levels: this.levels,
    };
    $("rows").append(...this.all.map((row) => row.element));
    this.place();
    for (const row of this.all) row.build();
    this.lines = new Lines($("lines"), $("tip"));
    const rows = Object.values(this.rows);
    const subjects = new Set(rows.map(({ subject }) => subject).filter((subject) => subject !== ""));
    /** Rows of one subject share the answer of one feed. */
    this.subjects = [...subjects].map((one) => this.#feed(rows.filter(({ subject }) => subject === one)));
    const failed = (error) => page.words.say(error.message);
    this.events = new Feed((wish) => this.phases.ask(wish), (answer, wish) => this.phases.take(answer, wish), failed);
    this.gaps = new Feed(wholeGaps, (answer) => this.#takeGaps(answer), failed);
  }

  /** All rows, shown or not. @returns {Row[]} */
  get all() {
    return [this.phases, ...Object.values(this.rows)];
  }

  /** Names of the rows that are shown, of those for which there are data. */
  visible() {
    return ROWS.map(([name]) => name).filter((name) => !this.page.state.hidden.includes(name) && this.has(name));
  }

  /** Rows that are drawn. @returns {Row[]} */
  drawn() {
    return [this.phases, ...this.visible().map((name) => this.rows[name])];
  }

  /** Whether any capture has data for a row. @param {string} name */
  has(name) {
    return this.page.sources.some((source) => this.rows[name].available(source));
  }

  /** Width of the plots in pixels. */
  get width() {
    return Math.max(30, $("stage").clientWidth - gutter() - RIGHT);
  }

  // ---- questions

  /** @param {Row[]} rows of one subject */
  #feed(rows) {
    const feed = new Feed((wish) => rows[0].ask(wish), (answer, wish) => {
      for (const row of answer ? rows : []) this.draw(row, wish, () => row.take(answer, wish));
    }, (error) => this.page.words.say(error.message));
    return { rows, feed };
  }

  /** Whether every row shows the view. */
  get idle() {
    return this.events.idle && this.gaps.idle && this.subjects.every(({ feed }) => feed.idle);
  }

  /** Asks for the rows that are shown. */
  ask() {
    const { page } = this;
    const { begin, end } = page.state;
    const wish = { source: page.source, sources: page.sources, begin, end, width: Math.round(this.width) };
    const shown = this.visible();
    for (const { rows, feed } of this.subjects) if (rows.some(({ name }) => shown.includes(name))) feed.want(wish);
    if (!page.source.about.live) {
      this.events.want(wish);
      this.gaps.want(wish);
    }
    page.busy.settled();
  }

  /**
   * Draws a row of an answer.
   * @param {Row} row
   * @param {?Wish} wish the span that the answer covers; null for the whole capture
   * @param {() => void} draw
   */
  draw(row, wish, draw) {
    if (row.element.hidden) return;
    draw();
    row.holds = wish;
    this.page.busy.later(`label ${row.name}`, 300, () => row.label(row.text()));
    this.#read(row);
    this.#tell();
  }

  /** Draws the power states of the capture that is shown, or says why there are none. */
  drawStates() {
    const { energy, energyState } = this.page.source;
    const instead = { working: "working out…", failed: "not worked out", unasked: "not worked out yet" }[energyState] ?? energy?.states.absent ?? "none found";
    this.draw(this.states, null, () => this.states.draw(energy?.states.spans ?? [], instead));
  }

  /** Forgets the answers of rows that show one capture: another one is shown. */
  forget() {
    for (const row of [this.commands, this.levels]) row.holds = undefined;
  }

  #takeGaps(gaps) {
    const same = JSON.stringify(gaps) === JSON.stringify(shared.gaps);
    shared.gaps = gaps;
    if (!same) for (const row of this.drawn()) for (const chart of row.charts) chart.redraw(false);
  }

  // ---- places

  /** Gives each row its height: on a screen that is wide enough they share the window's. */
  place() {
    const { printing } = this.page;
    const shown = this.visible();
    for (const [name, row] of Object.entries(this.rows)) row.element.hidden = !shown.includes(name);
    const weights = shown.reduce((sum, name) => sum + this.rows[name].weight, 0) || 1;
    const room = printing ? PAPER : innerHeight - $("stage").getBoundingClientRect().top - scrollY - 25 - TOP;
    const unit = innerWidth < 900 && !printing ? 84 : Math.max(46, room / weights);
    this.phases.element.style.height = `${TOP}px`;
    for (const name of shown) this.rows[name].element.style.height = `${Math.floor(unit * this.rows[name].weight)}px`;
  }

  /** Fits all to a change of the window's size, or of the rows that are shown. */
  arrange() {
    this.place();
    this.updateTime();
    for (const row of this.drawn()) row.fit();
    this.placeCursors();
    this.point();
  }

  /** Moves all to the view. */
  move() {
    this.updateTime();
    for (const row of this.drawn()) row.move();
    this.placeCursors();
    this.point();
    this.ask();
  }

  placeCursors() {
    const { a, b } = this.page.state;
    this.lines.place({ a, b });
  }

  updateTime() {
    shared.begin = this.page.state.begin;
    shared.end = this.page.state.end;
    pen.font = FONT;
    shared.time = timeTicks(shared.begin, shared.end, this.page.tickSeconds, this.width, (text) => pen.measureText(text).width);
  }

  redraw() {
    for (const row of this.all) {
      for (const chart of row.charts) chart.redraw();
      this.#read(row);
    }
  }

  // ---- pointer

  /** The tick at a place. @param {number} x pixels from the left edge of the plots */
  tickAt(x) {
    const { begin, end } = this.page.state;
    return begin + (x / this.width) * (end - begin);
  }

  /** The tick below the pointer; null where there is no pointer. */
  get pointed() {
    return this.pointer === null ? null : this.tickAt(this.pointer.x);
  }

  /** The row at a height of the stage, and the height within its plot. @param {number} y @returns {{row: ?Row, y: number}} */
  rowAt(y) {
    const top = $("stage").getBoundingClientRect().top + y;
    for (const row of this.drawn()) {
      const box = row.element.getBoundingClientRect();
      if (top >= box.top && top < box.bottom) {
        const [chart] = row.charts.filter(({ root }) => !root.closest("[hidden]"));
        return { row, y: top - box.top - (chart ? chart.bbox.top / devicePixelRatio : 0) };
      }
    }
    return { row: null, y };
  }

  /** The tick at a place, or at an edge, sample or instant close by. @param {number} x @param {number} y */
  snapped(x, y) {
    const tick = this.tickAt(x);
    const { row } = this.rowAt(y);
    const reach = (SNAP / this.width) * (this.page.state.end - this.page.state.begin);
    const near = (row?.edges(tick, reach) ?? []).sort((one, other) => Math.abs(one - tick) - Math.abs(other - tick));
    return Math.round(near[0] ?? tick);
  }

  /** @param {number} x @param {number} y */
  hover(x, y) {
    if (x < 0 || x > this.width) return this.leave();
    this.pointer = { x, y };
    this.point();
  }

  leave() {
    if (!this.pointer) return;
    this.pointer = null;
    this.point();
  }

  /** Describes the place below the pointer, after the pointer or the view has moved. */
  point() {
    this.lines.point(this.pointer?.x ?? null);
    this.#tell();
    for (const row of this.drawn()) this.#read(row);
    this.page.words.tellTime();
  }

  /** Has a row say its values below the pointer. It says none while its answer is of another span. */
  #read(row) {
    const tick = this.pointed;
    const held = tick !== null && (row.holds === null || (row.holds !== undefined && tick >= row.holds.begin && tick <= row.holds.end));
    row.readout(held ? tick : null);
  }

  /** Writes the tip beside the pointer. */
  #tell() {
    if (this.pointer === null) return this.lines.hide();
    const { x, y } = this.pointer;
    const { row, y: inside } = this.rowAt(y);
    this.lines.tell(row?.tip(x, inside) ?? null, x + gutter(), y, $("stage").clientWidth);
  }
}
