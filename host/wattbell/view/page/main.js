/** `wattbell view`: puts the page together. */

import { ask, Feed } from "./api.js";
import { gutter, FONT, shared } from "./chart.js";
import { CommandsRow } from "./commands.js";
import { commandLines, EnergyPanel } from "./energy.js";
import { listen } from "./gestures.js";
import { Histogram } from "./histogram.js";
import { keyboard } from "./keys.js";
import { LevelsRow } from "./levels.js";
import { Lines } from "./lines.js";
import { watch } from "./live.js";
import { LoadRow } from "./load.js";
import { Overview } from "./overview.js";
import { driveText, make, showAbout, showCommand, showSpan } from "./panel.js";
import { PhasesRow } from "./phases.js";
import { RailRow } from "./rail.js";
import { saving } from "./saving.js";
import { Search } from "./search.js";
import { Source } from "./source.js";
import { StatesRow } from "./states.js";
import { fromFragment, ROWS, Store, toFragment } from "./state.js";
import { captureColour, choose, colours, printed } from "./theme.js";
import { timeTicks } from "./timeaxis.js";
import { clock, duration, instant, si } from "./units.js";

const $ = (id) => document.getElementById(id);
/** Least width of the bins of MB/s and IOPS: below it a bin holds one command or none, and a rate says nothing. */
const RATE_BIN_S = 1e-4;
/** Least span of a view. */
const LEAST_S = 2e-8;
/** Points are drawn for so many commands at most, above that their density. */
const MOST_POINTS = 3000;
/** Events and changes of levels are kept, and not asked for again with each view, where the whole capture has at most so many. */
const MOST_KEPT = 2000;
const allEvents = ({ count, rows }) => count === rows.length;
const allLevels = (levels) => Object.values(levels).every((changes) => changes.length < MOST_KEPT && changes.every(([, value]) => value !== "*"));
const noGaps = (gaps) => gaps.length === 0;
const RIGHT = 8;
const pen = document.createElement("canvas").getContext("2d");

class Page {
  store = new Store();
  extent = { begin: 0, end: 1 };
  before = []; // views to go back to
  pointer = null; // where it is on the screen {x, y}; the tick below it is that of the view as it is now
  armed = null; // the cursor that the next click sets, if chosen by its button
  timers = new Map();

  get state() {
    return this.store.state;
  }

  get source() {
    return this.sources[this.state.shown];
  }

  /** The tick below the pointer; null where there is no pointer. */
  get pointed() {
    return this.pointer === null ? null : this.tickAt(this.pointer.x);
  }

  get tickSeconds() {
    return this.sources[0].about.tick_s;
  }

  async start() {
    const captures = await ask("captures");
    const abouts = await Promise.all(captures.map(({ k }) => ask(`${k}/capture`)));
    this.sources = abouts.map((about, k) => new Source(k, about, abouts[0]));
    this.measureExtent();
    this.store.set(this.fragment());
    choose(this.state.theme);
    this.buildRows();
    this.lines = new Lines($("lines"), $("tip"));
    this.overview = new Overview($("overview"), (begin, end) => this.look(begin, end));
    this.histogram = new Histogram($("histogram-plot"));
    this.search = new Search({ source: () => this.source, view: () => this.state, found: (span, kind) => this.goTo(span, kind), say: (text) => this.say(text) });
    this.energyPanel = new EnergyPanel(() => this.work());
    saving(() => this.chosen(), () => this.source, (text) => this.say(text));
    this.feeds();
    this.wire();
    this.introduce();
    this.store.listen((changed) => this.changed(changed));
    this.arrange();
    this.moved();
    this.askOverview();
    this.askPanel();
    this.live();
  }

  measureExtent() {
    const begin = Math.min(...this.sources.map((source) => source.begin));
    const end = Math.max(...this.sources.map((source) => source.end));
    this.extent = { begin, end: end > begin ? end : begin + 1e-3 / this.tickSeconds };
  }

  // ---- rows

  buildRows() {
    const many = this.sources.length;
    const ticks = () => this.tickSeconds;
    this.phases = new PhasesRow(ticks);
    this.rows = {
      power: new RailRow("power", "Power", "W", 1.5, many),
      current: new RailRow("current", "Current", "A", 0.9, many),
      voltage: new RailRow("voltage", "Voltage", "V", 0.8, many),
      load: new LoadRow("load", "MB/s", 1.1, many, this.tickSeconds),
      iops: new LoadRow("iops", "IOPS", 0.8, many, this.tickSeconds),
      depth: new LoadRow("depth", "Queue depth", 0.8, many, this.tickSeconds),
      commands: new CommandsRow("commands", "Commands", 2.2, ticks),
      states: new StatesRow("states", "Power states", 0.4, ticks),
      levels: new LevelsRow("levels", "Link and pins", 0.9, ticks),
    };
    const stack = [this.phases, ...Object.values(this.rows)];
    $("rows").append(...stack.map((row) => row.element));
    this.place();
    for (const row of stack) row.build();
  }

  /** Rows that are shown, of those for which there are data. */
  visible() {
    return ROWS.map(([name]) => name).filter((name) => !this.state.hidden.includes(name) && this.has(name));
  }

  has(name) {
    const any = (test) => this.sources.some(({ about }) => test(about));
    if (["power", "current", "voltage"].includes(name)) return any(({ has }) => has.rail);
    if (["load", "iops", "depth"].includes(name)) return any(({ has, live }) => has.commands || live);
    // its place is there before its data, where these come by themselves
    if (name === "states") return this.sources.some(({ about, energy }) => about.has.rail && !about.live && (about.light || energy));
    // single commands and levels can be asked for once the recording has ended
    return any(({ has, live }) => !live && (name === "commands" ? has.commands : has.events));
  }

  /** Gives each row its height: on a screen that is wide enough they share the window's. */
  place() {
    const shown = this.visible();
    for (const [name, row] of Object.entries(this.rows)) row.element.hidden = !shown.includes(name);
    const narrow = innerWidth < 900;
    const weights = shown.reduce((sum, name) => sum + this.rows[name].weight, 0) || 1;
    const top = 62;
    const room = this.printing ? 535 : innerHeight - $("stage").getBoundingClientRect().top - scrollY - 25 - top;
    const unit = narrow && !this.printing ? 84 : Math.max(46, room / weights);
    this.phases.element.style.height = `${top}px`;
    for (const name of shown) this.rows[name].element.style.height = `${Math.floor(unit * this.rows[name].weight)}px`;
  }

  /** After a change of the window's size or of the rows shown. */
  arrange() {
    this.place();
    this.updateTime();
    for (const row of this.drawn()) row.fit();
    this.overview.fit();
    this.histogram.fit();
    this.lines.place({ a: this.state.a, b: this.state.b });
    this.point();
  }

  drawn() {
    return [this.phases, ...this.visible().map((name) => this.rows[name])];
  }

  get plotWidth() {
    return Math.max(30, $("stage").clientWidth - gutter() - RIGHT);
  }

  updateTime() {
    shared.begin = this.state.begin;
    shared.end = this.state.end;
    pen.font = FONT;
    shared.time = timeTicks(shared.begin, shared.end, this.tickSeconds, this.plotWidth, (text) => pen.measureText(text).width);
  }

  // ---- questions

  feeds() {
    const failed = (error) => this.say(error.message);
    const each = (test, question) => (wish) => Promise.all(this.sources.map((source) => (test(source.about) ? question(source, wish) : null)));
    const hasRail = (about) => about.has.rail;
    const hasCommands = (about) => about.has.commands || about.live;
    const feed = (question, answered) => new Feed(question, answered, failed);
    const { rows } = this;
    this.rowFeeds = {
      rail: feed(each(hasRail, (source, { begin, end, width }) => source.ask("rail", { begin, end, points: width })), (answers, wish) => {
        for (const name of ["power", "current", "voltage"]) this.drawRow(rows[name], (row) => row.draw(answers), wish);
      }),
      load: feed(each(hasCommands, async (source, wish) => this.binned(source, wish)), (answers, wish) => {
        this.drawRow(rows.load, (row) => row.draw(answers.map((answer) => answer?.rate ?? null)), wish);
        this.drawRow(rows.iops, (row) => row.draw(answers.map((answer) => answer?.rate ?? null)), wish);
        this.drawRow(rows.depth, (row) => row.draw(answers.map((answer) => answer?.depth ?? null)), wish);
      }),
      commands: feed(({ source, begin, end }) => (hasCommands(source.about) ? source.ask("commands", { begin, end, limit: MOST_POINTS }) : null), (answer, wish) => {
        if (answer) this.drawRow(rows.commands, (row) => row.draw(answer, wish, this.state.command), wish);
      }),
      levels: feed(async ({ source, begin, end, width }) => await source.whole("levels", { points: MOST_KEPT }, allLevels) ?? source.ask("levels", { begin, end, points: width }), (answer, wish) => this.drawRow(rows.levels, (row) => row.draw(answer), wish)),
      events: feed(async ({ source, begin, end }) => await source.whole("events", { limit: MOST_KEPT }, allEvents) ?? source.ask("events", { begin, end, limit: 500 }), (answer) => this.phases.draw(this.source.phases, answer)),
      gaps: feed(async ({ source, begin, end, width }) => await source.whole("gaps", { points: width }, noGaps) ?? source.ask("gaps", { begin, end, points: width }), (answer) => this.takeGaps(answer)),
    };
    this.panelFeeds = {
      span: feed(({ source, begin, end }) => source.ask("span", { begin, end }), (answer, wish) => {
        showSpan(answer, wish, this.tickSeconds);
      }),
      histogram: feed(({ source, begin, end, of }) => source.ask("histogram", { begin, end, of, bins: 48 }), (answer) => this.histogram.draw(answer)),
      overview: feed(async ({ source, width }) => this.strip(source, width), (answer) => {
        if (answer) this.overview.draw(this.extent, answer.t, answer.values);
      }),
    };
    this.panelFeeds.histogram.failed = () => this.histogram.draw(null);
    Feed.settled = () => this.settled();
  }

  /** Draws a row of an answer, which covers the wish: the span {begin, end}, or null for the whole capture. */
  drawRow(row, draw, wish) {
    if (row.element.hidden) return;
    draw(row);
    row.holds = wish;
    this.labels(row);
    this.read(row);
    this.tell();
  }

  /** Has a row say its values below the pointer; none where its answer is of another span, until the answer for this one has come. */
  read(row) {
    const tick = this.pointed;
    const held = tick !== null && (row.holds === null || (row.holds !== undefined && tick >= row.holds.begin && tick <= row.holds.end));
    row.readout(held ? tick : null);
  }

  /** Rates in bins that are wide enough to be rates; the depth in bins as fine as the view. */
  async binned(source, { begin, end, width }) {
    const points = Math.max(20, Math.round(width / 2));
    const least = RATE_BIN_S / this.tickSeconds;
    const bin = (end - begin) / points;
    const edges = (answer) => ({ ...answer, t: answer.t.map((centre) => centre - answer.width / 2) });
    const reach = Math.max(bin, least);
    const wanted = { begin: Math.floor(begin / reach) * reach, end: (Math.floor(end / reach) + 2) * reach };
    const rate = source.ask("load", { ...wanted, points: Math.max(1, Math.round((wanted.end - wanted.begin) / reach)) });
    const depth = bin >= least ? rate : source.ask("load", { begin, end: end + bin, points: points + 1 });
    const [one, other] = await Promise.all([rate, depth]);
    return { rate: edges(one), depth: one === other ? edges(one) : edges(other) };
  }

  async strip(source, width) {
    const span = { begin: this.extent.begin, end: this.extent.end, points: Math.min(width, 600) };
    if (source.about.has.rail) {
      const { t, power } = await source.ask("rail", span);
      return { t, values: power.mean };
    }
    if (!source.about.has.commands) return null;
    const { t, iops } = await source.ask("load", span);
    return { t, values: iops };
  }

  takeGaps(gaps) {
    const same = JSON.stringify(gaps) === JSON.stringify(shared.gaps);
    shared.gaps = gaps;
    if (!same) for (const row of this.drawn()) for (const chart of row.charts) chart.redraw(false);
  }

  askRows() {
    const { begin, end } = this.state;
    const wish = { source: this.source, begin, end, width: Math.round(this.plotWidth) };
    const shown = this.visible();
    const some = (names) => names.some((name) => shown.includes(name));
    if (some(["power", "current", "voltage"])) this.rowFeeds.rail.want(wish);
    if (some(["load", "iops", "depth"])) this.rowFeeds.load.want(wish);
    if (some(["commands"])) this.rowFeeds.commands.want(wish);
    if (some(["levels"])) this.rowFeeds.levels.want(wish);
    if (!this.source.about.live) {
      this.rowFeeds.events.want(wish);
      this.rowFeeds.gaps.want(wish);
    }
    this.settled();
  }

  /** Has power states and energies worked out; for a light capture unprompted, once its picture is there. */
  async work() {
    const { source } = this;
    const had = this.visible().join();
    const asked = source.work();
    this.showEnergy(source);
    await asked;
    if (this.visible().join() !== had) this.arrange();
    this.rowsMenu();
    this.showEnergy(source);
  }

  showEnergy(source) {
    if (source !== this.source) return;
    this.energyPanel.show(source, this.chosen());
    this.drawStates();
    if (source.energy && this.state.command) this.pickShown();
  }

  drawStates() {
    const { energy, energyState } = this.source;
    const instead = { working: "working out…", failed: "not worked out", unasked: "not worked out yet" }[energyState] ?? energy?.states.absent ?? "none found";
    this.drawRow(this.rows.states, (row) => row.draw(energy?.states.spans ?? [], instead), null);
  }

  askOverview() {
    this.panelFeeds.overview.want({ source: this.source, width: Math.round(this.plotWidth) });
  }

  askPanel() {
    if (this.source.about.live) return;
    const chosen = this.chosen();
    this.panelFeeds.span.want({ source: this.source, ...chosen });
    this.energyPanel.show(this.source, chosen);
    const of = this.histogramOf();
    $("histogram").hidden = of === null;
    if (of !== null) this.panelFeeds.histogram.want({ source: this.source, begin: chosen.begin, end: chosen.end, of });
    $("export-what").textContent = chosen.between ? "A to B" : "the view";
    this.settled();
  }

  histogramOf() {
    const { has } = this.source.about;
    const options = [...$("histogram-of").options];
    for (const option of options) option.disabled = option.value === "latency" ? !has.commands : !has.rail;
    const wanted = options.find(({ value }) => value === this.state.histogram);
    const usable = wanted.disabled ? options.find(({ disabled }) => !disabled) : wanted;
    if (!usable) return null;
    $("histogram-of").value = usable.value;
    return usable.value;
  }

  /** The span that figures, histogram and export are of: between the cursors, else the view. */
  chosen() {
    const { a, b, begin, end } = this.state;
    if (a === null || b === null) return { begin, end, between: false };
    return { begin: Math.min(a, b), end: Math.max(a, b), between: true, a, b };
  }

  /** Runs `act` once nothing has asked for it for `ms`. */
  later(name, ms, act) {
    clearTimeout(this.timers.get(name));
    this.timers.set(name, setTimeout(() => {
      this.timers.delete(name);
      act();
      this.settled();
    }, ms));
    document.body.dataset.busy = "1";
  }

  /** Says on the body whether the picture shows the view, for programs that drive or measure the page. */
  settled() {
    const idle = (feeds) => Object.values(feeds).every((feed) => feed.idle);
    const rows = idle(this.rowFeeds);
    const all = rows && idle(this.panelFeeds) && this.timers.size === 0;
    document.body.dataset.busy = all ? "0" : "1";
    const { about, energyState } = this.source;
    if (all && about.light && !about.live && about.end > about.begin && energyState === "unasked") this.work();
    if (rows) document.body.dataset.drawn = `${this.state.begin},${this.state.end}`;
  }

  // ---- changes

  changed(changed) {
    const any = (...keys) => keys.some((key) => changed.has(key));
    if (any("theme")) this.recolour();
    if (any("hidden")) {
      this.rowsMenu();
      this.arrange();
      this.drawStates();
    }
    if (any("shown")) {
      for (const row of [this.rows.commands, this.rows.levels]) row.holds = undefined; // their answers are of the other capture
      this.introduce();
    }
    if (any("command")) this.pickShown();
    if (any("begin", "end")) this.moved();
    else if (any("shown", "hidden")) this.askRows();
    if (any("shown")) this.askOverview();
    if (any("a", "b")) this.cursorsMoved();
    if (any("a", "b", "shown", "histogram") || (any("begin", "end") && !this.chosen().between)) {
      document.body.dataset.busy = "1";
      this.later("panel", any("begin", "end", "a", "b") ? 120 : 0, () => this.askPanel());
    }
    this.later("fragment", 400, () => this.keep());
  }

  moved() {
    this.updateTime();
    for (const row of this.drawn()) row.move();
    this.overview.move(this.state.begin, this.state.end);
    this.lines.place({ a: this.state.a, b: this.state.b });
    this.point();
    this.askRows();
  }

  cursorsMoved() {
    const { a, b } = this.state;
    this.lines.place({ a, b });
    $("cursors-zoom").disabled = a === null || b === null || a === b;
    $("cursors-clear").disabled = a === null && b === null;
    this.tellTime();
  }

  recolour() {
    choose(this.state.theme);
    this.redrawAll();
  }

  redrawAll() {
    for (const row of [this.phases, ...Object.values(this.rows)]) {
      for (const chart of row.charts) chart.redraw();
      this.read(row);
    }
    this.overview.chart.redraw();
    this.histogram.chart.redraw();
    this.energyPanel.show(this.source, this.chosen());
    this.paintCaptures();
  }

  keep() {
    const fragment = toFragment(this.state, this.extent);
    if (location.hash.replace(/^#/, "") !== fragment) history.replaceState(null, "", `${location.pathname}${fragment ? `#${fragment}` : ""}`);
  }

  /** The state that the address asks for. */
  fragment() {
    const asked = fromFragment(location.hash, this.extent, this.sources.length);
    return { ...asked, ...this.within(asked.begin, asked.end) };
  }

  /** A view as it can be: no less than a few ticks, no more than there is. */
  within(begin, end) {
    const whole = this.extent.end - this.extent.begin;
    const least = Math.max(LEAST_S / this.tickSeconds, 2);
    let long = Math.min(whole, Math.max(least, end - begin));
    let from = (begin + end) / 2 - long / 2;
    from = Math.max(this.extent.begin, Math.min(this.extent.end - long, from));
    if (long > 1000) [from, long] = [Math.round(from), Math.round(long)];
    return { begin: from, end: from + long };
  }

  /** Sets the view. */
  look(begin, end, { remember = true } = {}) {
    const view = this.within(begin, end);
    if (remember) this.remember();
    if (this.following && Math.abs(view.end - this.extent.end) > (view.end - view.begin) * 0.02) this.follow(false);
    this.store.set(view);
  }

  /** Views that stood still for a moment can be gone back to. */
  remember() {
    const now = performance.now();
    if (now - (this.remembered ?? -Infinity) > 600) {
      this.before.push([this.state.begin, this.state.end]);
      if (this.before.length > 200) this.before.shift();
    }
    this.remembered = now;
  }

  back() {
    const view = this.before.pop();
    if (view) this.look(...view, { remember: false });
  }

  zoom(factor) {
    const { begin, end } = this.state;
    const at = this.pointed ?? (begin + end) / 2;
    this.look(at - (at - begin) * factor, at + (end - at) * factor);
  }

  pan(share) {
    const { begin, end } = this.state;
    this.look(begin + share * (end - begin), end + share * (end - begin));
  }

  /** Shows the item found: in the present view if it is visible there, else in a view as wide as it needs. */
  goTo(span, kind) {
    const { begin, end } = this.state;
    const size = Math.max(0, span.end - span.begin);
    const air = { command: 5, phase: 1.15, gap: 5 }[kind] ?? 5;
    const seconds = 1 / this.tickSeconds;
    const wide = size > 0 ? size * air : Math.min(end - begin, 0.01 * seconds);
    const keep = kind !== "phase" && end - begin >= wide && end - begin <= wide * 40;
    const long = keep ? end - begin : Math.max(wide, LEAST_S * 4 * seconds);
    const middle = (span.begin + span.end) / 2;
    this.look(middle - long / 2, middle + long / 2);
    if (span.row) this.pick(span.row);
  }

  pick(row) {
    this.store.set({ command: row });
  }

  pickShown() {
    const row = this.state.command;
    const start = row === null ? 0 : row.doorbell ?? row.fetch ?? row.cqe;
    showCommand(row, this.tickSeconds, commandLines(row, this.source), {
      zoom: () => this.look(start - (row.cqe - start) * 0.5, Math.max(row.cqe, row.cq_head ?? 0) + (row.cqe - start) * 0.5),
      cursors: () => this.store.set({ a: start, b: row.cqe }),
      close: () => this.pick(null),
    });
    if (this.visible().includes("commands")) this.rows.commands.pick(row);
  }

  // ---- pointer

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

  tickAt(x) {
    return this.state.begin + (x / this.plotWidth) * (this.state.end - this.state.begin);
  }

  /** The tick at a place, or at an edge, sample or instant close by. */
  snapped(x, y) {
    const tick = this.tickAt(x);
    const { row } = this.rowAt(y);
    const reach = (7 / this.plotWidth) * (this.state.end - this.state.begin);
    const near = (row?.edges(tick, reach) ?? []).sort((one, other) => Math.abs(one - tick) - Math.abs(other - tick));
    return Math.round(near[0] ?? tick);
  }

  hover(x, y) {
    if (x < 0 || x > this.plotWidth) return this.leave();
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
    this.tell();
    for (const row of this.drawn()) this.read(row);
    this.tellTime();
  }

  /** The tip beside the pointer. */
  tell() {
    if (this.pointer === null) return this.lines.tell(null);
    const { x, y } = this.pointer;
    const { row, y: inside } = this.rowAt(y);
    this.lines.tell(row?.tip(x, inside) ?? null, x + gutter(), y, $("stage").clientWidth);
  }

  click(x, y) {
    if (x < 0 || x > this.plotWidth) return;
    const { row, y: inside } = this.rowAt(y);
    const command = this.armed === null && row === this.rows.commands ? row.at(x, inside) : null;
    if (command) return this.pick(command);
    const { a, b } = this.state;
    this.setCursor(this.armed ?? (a === null || b !== null ? "a" : "b"), this.snapped(x, y));
  }

  setCursor(name, tick) {
    // a third click begins anew
    const anew = this.armed === null && name === "a" && this.state.a !== null && this.state.b !== null;
    this.arm(null);
    this.store.set({ [name]: Math.round(tick), ...(anew ? { b: null } : {}) });
  }

  arm(name) {
    this.armed = name;
    for (const one of ["a", "b"]) $(`cursor-${one}`).setAttribute("aria-pressed", String(name === one));
  }

  cursorHere(name) {
    const tick = this.pointer ? this.snapped(this.pointer.x, this.pointer.y) : (this.state.begin + this.state.end) / 2;
    this.arm(name);
    this.setCursor(name, tick);
  }

  // ---- words

  /** Time of the pointer, between the cursors, and of the view. */
  tellTime() {
    const { begin, end, a, b } = this.state;
    const pieces = [];
    const utc = this.source.about.utc_origin_s;
    const { pointed } = this;
    if (pointed !== null) {
      const utcText = utc ? ` (${new Date((utc + this.source.toCapture(pointed) * this.source.about.tick_s) * 1000).toISOString().slice(0, 23).replace("T", " ")} UTC)` : "";
      pieces.push(["pointer", instant(Math.round(pointed), this.tickSeconds) + utcText]);
    }
    if (a !== null && b !== null) pieces.push(["B − A", duration(b - a, this.tickSeconds)]);
    const long = (end - begin) * this.tickSeconds;
    pieces.push(["view", long >= 60 ? clock(Math.round(long)) : si(long, "s", 4)]);
    $("time").replaceChildren(...pieces.flatMap(([name, text]) => [`${name} `, make("b", text), "   "]));
  }

  /** A passing line for everybody, read out too. */
  say(text) {
    const place = $("said") ?? $("notices").appendChild(make("div", undefined, { id: "said", class: "notice" }));
    place.replaceChildren(make("span", text));
    clearTimeout(this.saying);
    this.saying = setTimeout(() => place.remove(), 7000);
  }

  /** A line that stays until it is closed. */
  notice(text) {
    const place = make("div", text, { class: "notice" });
    const close = make("button", "×", { "aria-label": "Close this line" });
    close.addEventListener("click", () => {
      place.remove();
      this.arrange();
    });
    place.append(close);
    $("notices").append(place);
  }

  /** Describes the capture shown, in words. */
  introduce() {
    const { about } = this.source;
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
    this.search.renew(about);
    this.showCaptures();
    this.rowsMenu();
    this.pickShown();
    this.drawStates();
  }

  showCaptures() {
    $("captures").hidden = this.sources.length < 2;
    $("captures").querySelector("div").replaceChildren(...this.sources.map(({ about }, k) => {
      const [label, radio, swatch] = [make("label"), make("input", undefined, { type: "radio", name: "capture", value: k }), make("i")];
      radio.checked = k === this.state.shown;
      radio.addEventListener("change", () => this.store.set({ shown: k, command: null }));
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

  rowsMenu() {
    $("rows-list").replaceChildren(...ROWS.map(([name, title]) => {
      const [label, box] = [make("label"), make("input", undefined, { type: "checkbox" })];
      box.checked = !this.state.hidden.includes(name);
      box.disabled = !this.has(name);
      box.addEventListener("change", () => this.store.set({ hidden: ROWS.map(([one]) => one).filter((one) => (one === name ? !box.checked : this.state.hidden.includes(one))) }));
      label.append(box, ` ${title}`);
      return label;
    }));
  }

  /** Texts of the charts for those who do not see them. */
  labels(row) {
    this.later(`label ${row.name}`, 300, () => row.label(row.text?.(this.tickSeconds) ?? ""));
  }

  // ---- a recording

  async live() {
    const source = this.source;
    if (!source.about.live) return;
    this.phases.draw(source.phases, { count: 0, rows: [] });
    $("follow").hidden = false;
    this.follow(this.state.end >= this.extent.end);
    let renewed = performance.now();
    await watch(source, async (latest) => {
      if (performance.now() - renewed > 2000) {
        renewed = performance.now();
        const had = this.visible().join();
        source.take(await ask(`${source.k}/capture`));
        if (this.visible().join() !== had) this.arrange();
        showAbout(source.about);
        this.askOverview();
      }
      source.end = Math.max(source.end, latest.t ?? 0);
      this.grow();
    }, async () => {
      const origin = source.about.origin_tick;
      const whole = this.state.begin === this.extent.begin && this.state.end === this.extent.end;
      source.take(await ask(`${source.k}/capture`));
      $("follow").hidden = true;
      this.grow();
      this.following = false;
      if (whole) this.store.set(this.extent);
      else this.shift(origin - source.about.origin_tick);
      this.introduce();
      this.arrange();
      this.askOverview();
      this.askRows();
      this.askPanel();
      this.say("The recording has ended.");
    });
  }

  /** The capture is longer than it was. */
  grow() {
    const whole = this.state.begin === this.extent.begin && this.state.end === this.extent.end;
    this.measureExtent();
    if (!this.following) return this.overview.move(this.state.begin, this.state.end);
    const long = whole ? this.extent.end - this.extent.begin : this.state.end - this.state.begin;
    this.store.set({ begin: this.extent.end - long, end: this.extent.end });
  }

  /** The complete capture may count from another tick: the view keeps its content. */
  shift(ticks) {
    if (ticks === 0) return;
    const { begin, end, a, b } = this.state;
    this.store.set({ begin: begin + ticks, end: end + ticks, a: a === null ? null : a + ticks, b: b === null ? null : b + ticks });
  }

  follow(on) {
    this.following = on;
    $("follow").setAttribute("aria-pressed", String(on));
    if (on) this.grow();
  }

  // ---- wiring

  wire() {
    listen($("stage"), {
      plot: () => ({ left: gutter(), width: this.plotWidth }),
      view: () => this.state,
      look: (begin, end) => this.look(begin, end),
      hover: (x, y) => this.hover(x, y),
      leave: () => this.leave(),
      click: (x, y) => this.click(x, y),
      cursors: () => [["a", this.state.a], ["b", this.state.b]],
      moveCursor: (name, x, y) => this.store.set({ [name]: this.snapped(Math.max(0, Math.min(this.plotWidth, x)), y) }),
      selecting: (from, to) => this.lines.choose(from, to),
      between: (from, to) => this.store.set({ a: Math.round(from), b: Math.round(to) }),
    });
    const act = {
      zoomIn: () => this.zoom(0.5), zoomOut: () => this.zoom(2), pan: (share) => this.pan(share),
      whole: () => this.look(this.extent.begin, this.extent.end), back: () => this.back(),
      cursorA: () => this.cursorHere("a"), cursorB: () => this.cursorHere("b"),
      cursorsZoom: () => {
        const { begin, end, between } = this.chosen();
        if (between && end > begin) this.look(begin - (end - begin) * 0.05, end + (end - begin) * 0.05);
      },
      cursorsClear: () => this.store.set({ a: null, b: null }),
      jump: (what, direction) => this.search.jump(what, direction),
      search: () => $("search-above").focus(),
      follow: () => !$("follow").hidden && this.follow(!this.following),
      rows: () => $("rows-menu").toggleAttribute("open"),
      theme: () => this.store.set({ theme: { auto: colours.dark ? "light" : "dark", light: "dark", dark: "light" }[this.state.theme] }),
      link: () => this.link(),
      help: () => $("keys").showModal(),
      escape: () => {
        this.arm(null);
        this.pick(null);
        $("rows-menu").removeAttribute("open");
      },
    };
    document.addEventListener("keydown", keyboard(act));
    const buttons = {
      "zoom-in": act.zoomIn, "zoom-out": act.zoomOut, back: act.back, whole: act.whole, "cursors-zoom": act.cursorsZoom, "cursors-clear": act.cursorsClear,
      follow: act.follow, theme: act.theme, link: act.link, help: act.help,
      "cursor-a": () => this.arm(this.armed === "a" ? null : "a"), "cursor-b": () => this.arm(this.armed === "b" ? null : "b"),
    };
    for (const [id, run] of Object.entries(buttons)) $(id).addEventListener("click", run);
    $("histogram-of").addEventListener("change", (event) => this.store.set({ histogram: event.target.value }));
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest("#rows-menu")) $("rows-menu").removeAttribute("open");
    });
    new ResizeObserver(() => this.later("resize", 60, () => this.resized())).observe($("main"));
    addEventListener("resize", () => this.later("resize", 60, () => this.resized()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    addEventListener("hashchange", () => this.store.set(this.fragment()));
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    matchMedia("print").addEventListener("change", ({ matches }) => this.print(matches));
  }

  resized() {
    const size = `${$("stage").clientWidth} ${innerHeight}`;
    if (size === this.size || this.printing) return;
    this.size = size;
    this.arrange();
    this.askRows();
  }

  /** On paper: dark on white, as wide as the sheet, whatever the screen has. */
  print(on) {
    this.printing = on;
    document.documentElement.classList.toggle("printing", on);
    if (on) printed();
    else choose(this.state.theme);
    this.arrange();
    this.redrawAll();
  }

  async link() {
    this.keep();
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("The address of this view is copied. It opens here as long as this `wattbell view` runs; what is behind the # opens the same view later.");
    } catch {
      this.say("This browser does not let the page copy: take the address from its address bar.");
    }
  }
}

const page = new Page();
page.start().catch((error) => {
  document.body.dataset.busy = "0";
  const place = make("p", error.message, { class: "notice", role: "alert" });
  $("notices").append(place);
});

