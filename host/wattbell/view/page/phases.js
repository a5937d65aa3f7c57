/** The row at the top: the time, the phases, and what happened. */

import { FONT, makeChart, shared, within } from "./chart.js";
import { Row } from "./row.js";
import { colours, phaseColour } from "./theme.js";
import { count, duration } from "./units.js";

/** Events are kept, and not asked for again with each view, where the whole capture has at most so many. */
const MOST_KEPT = 2000;
const complete = (answer) => answer.count === answer.rows.length;
/** Names of events are written where there are at most so many. */
const MOST_NAMES = 40;

export class PhasesRow extends Row {
  constructor(tickSeconds) {
    super("phases", "Phases and events", 0);
    this.tickSeconds = tickSeconds;
    /** @type {any[]} */
    this.phases = [];
    /** @type {{count: number, rows: any[]}} */
    this.events = { count: 0, rows: [] };
  }

  build() {
    this.chart = makeChart(this.plot, {
      series: [{ paths: () => null, points: { show: false } }],
      y: { dir: -1, range: () => [0, 2], splits: () => [0.5, 1.5], labels: () => ["phases", "events"], grid: false },
      gapKinds: null,
      hooks: { draw: [(self) => this.#paint(self)] },
      top: true,
    });
    this.say();
  }

  say() {
    this.chip.replaceChildren();
  }

  async ask({ source, begin, end }) {
    return await source.whole("events", { limit: MOST_KEPT }, complete) ?? source.ask("events", { begin, end, limit: 500 });
  }

  take(events, { source }) {
    this.draw(source.phases, events);
  }

  /** @param {any[]} phases of the capture @param {{count: number, rows: any[]}} events of the view */
  draw(phases, events) {
    this.phases = phases;
    this.events = events;
    this.chart.setData([[shared.begin, shared.end], [null, null]]);
  }

  #paint({ ctx, bbox, valToPos }) {
    const ratio = devicePixelRatio;
    const lane = bbox.height / 2;
    const x = (tick) => Math.min(bbox.left + bbox.width + 10, Math.max(bbox.left - 10, valToPos(tick, "x", true)));
    within(ctx, bbox, "left");
    this.phases.forEach((phase, place) => {
      if (phase.end < shared.begin || phase.begin > shared.end) return;
      const [left, right] = [x(phase.begin), x(phase.end)];
      ctx.fillStyle = phaseColour(place);
      ctx.fillRect(left, bbox.top + ratio, Math.max(ratio, right - left - ratio), lane - 2 * ratio);
      ctx.fillStyle = colours.muted;
      ctx.fillRect(left, bbox.top + ratio, ratio, lane - 2 * ratio);
      this.#name(ctx, phase.name, Math.max(left, bbox.left) + 4 * ratio, Math.min(right, bbox.left + bbox.width) - 3 * ratio, bbox.top + lane / 2 + ratio / 2);
    });
    const groups = this.#groups(x, 3 * ratio).filter(({ at }) => at >= bbox.left && at <= bbox.left + bbox.width);
    groups.forEach(({ at, events }, place) => {
      ctx.fillStyle = colours.muted;
      ctx.fillRect(Math.round(at), bbox.top + lane + ratio, ratio, lane - 2 * ratio);
      if (groups.length > MOST_NAMES) return;
      const text = `${events[0].text || events[0].name}${events.length > 1 ? ` +${events.length - 1}` : ""}`;
      const until = groups[place + 1]?.at ?? bbox.left + bbox.width;
      if (at + ctx.measureText(text).width + 6 * ratio > until) return;
      ctx.fillStyle = colours.ink;
      ctx.fillText(text, at + 3 * ratio, bbox.top + 1.5 * lane + ratio / 2);
    });
    if (this.events.count > this.events.rows.length) {
      ctx.fillStyle = colours.muted;
      ctx.fillText(`${count(this.events.count)} events: zoom in to see each`, bbox.left + 4 * ratio, bbox.top + 1.5 * lane);
    }
    if (shared.time.base) this.#base(ctx, bbox);
    ctx.restore();
  }

  /** Groups of events that this zoom cannot separate. */
  #groups(x, reach) {
    const groups = [];
    for (const event of this.events.rows) {
      const at = x(event.t);
      const last = groups.at(-1);
      if (last && at - last.at < reach) last.events.push(event);
      else groups.push({ at, events: [event] });
    }
    return groups;
  }

  /** A name, cut by an ellipsis where it has too little room. */
  #name(ctx, name, left, right, middle) {
    let text = name;
    if (right - left < 14 * devicePixelRatio) return;
    if (ctx.measureText(text).width > right - left) {
      let [low, high] = [0, text.length];
      while (low < high) {
        const some = (low + high + 1) >> 1;
        if (ctx.measureText(`${text.slice(0, some)}…`).width <= right - left) low = some;
        else high = some - 1;
      }
      if (low < 2) return;
      text = `${text.slice(0, low)}…`;
    }
    ctx.fillStyle = colours.ink;
    ctx.fillText(text, left, middle);
  }

  /** Draws the time to which the axis's labels are added, at its left. */
  #base(ctx, bbox) {
    const ratio = devicePixelRatio;
    ctx.restore();
    ctx.save();
    ctx.font = `600 ${FONT.replace("11px", `${11 * ratio}px`)}`;
    ctx.fillStyle = colours.ink;
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    ctx.fillText(shared.time.base, bbox.left - 5 * ratio, bbox.top - 6 * ratio);
  }

  tip(left, top) {
    const tick = this.chart.posToVal(left, "x");
    const reach = ((shared.end - shared.begin) / (this.chart.bbox.width / devicePixelRatio)) * 4;
    if (top < this.chart.bbox.height / devicePixelRatio / 2) {
      const phase = this.phases.find(({ begin, end }) => begin <= tick && tick <= end);
      return phase ? [`Phase ${phase.number}: ${phase.name}`, `${phase.kind}, ${duration(phase.end - phase.begin, this.tickSeconds())}`] : null;
    }
    const event = this.events.rows.filter(({ t }) => Math.abs(t - tick) <= reach).sort((one, other) => Math.abs(one.t - tick) - Math.abs(other.t - tick))[0];
    return event ? [event.name, event.text].filter((line, i, all) => line && all.indexOf(line) === i) : null;
  }

  edges(t, reach) {
    const ticks = [...this.phases.flatMap(({ begin, end }) => [begin, end]), ...this.events.rows.map((event) => event.t)];
    return ticks.filter((tick) => Math.abs(tick - t) <= reach);
  }
}
