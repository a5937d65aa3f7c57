/** Levels, which hold until they change: the link's state, CLKREQ# and PERST#. */

import { makeChart, shared, within } from "./chart.js";
import { Row, lastAt } from "./row.js";
import { colours } from "./theme.js";
import { duration } from "./units.js";

const LANES = [["link_state", "link"], ["clkreq", "CLKREQ#"], ["perst", "PERST#"]];
/** Changes are kept, and not asked for again with each view, where the whole capture has at most so many of each level. */
const MOST_KEPT = 2000;
/** In place of a value: it changes too often to be drawn here. */
const OFTEN = "*";

export class LevelsRow extends Row {
  constructor(name, title, weight, tickSeconds) {
    super(name, title, weight);
    this.tickSeconds = tickSeconds;
    this.subject = "levels";
    this.levels = { link_state: [], clkreq: [], perst: [] };
    this.chip.replaceChildren();
  }

  build() {
    this.chart = makeChart(this.plot, {
      series: [{ paths: () => null, points: { show: false } }],
      y: { dir: -1, range: () => [0, 3], splits: () => [0.5, 1.5, 2.5], labels: () => LANES.map(([, name]) => name), grid: false },
      gapKinds: ["EVENTS", "LINK"],
      head: 5,
      hooks: { draw: [(self) => this.#paint(self)] },
    });
  }

  /** Levels can be asked for once the recording has ended. */
  available({ about: { has, live } }) {
    return !live && has.events;
  }

  async ask({ source, begin, end, width }) {
    return await source.whole("levels", { points: MOST_KEPT }, complete) ?? source.ask("levels", { begin, end, points: width });
  }

  take(levels) {
    this.draw(levels);
  }

  /** @param {any} levels of the server: lists of [tick, value] in the page's ticks */
  draw(levels) {
    this.levels = levels;
    this.chart.setData([[shared.begin, shared.end], [null, null]]);
  }

  #paint({ ctx, bbox, valToPos }) {
    const lane = bbox.height / 3;
    within(ctx, bbox, "center");
    LANES.forEach(([key], place) => {
      const changes = this.levels[key] ?? [];
      const top = bbox.top + place * lane + 0.18 * lane;
      const bottom = bbox.top + (place + 1) * lane - 0.18 * lane;
      let previous = null;
      changes.forEach(([tick, value], i) => {
        const left = Math.max(bbox.left - 4, valToPos(tick, "x", true));
        const right = Math.min(bbox.left + bbox.width + 4, i + 1 < changes.length ? valToPos(changes[i + 1][0], "x", true) : Infinity);
        if (right >= bbox.left - 4 && left <= bbox.left + bbox.width + 4) this.#piece(ctx, { value, previous, left, right, top, bottom, state: key === "link_state" });
        previous = value;
      });
    });
    ctx.restore();
  }

  #piece(ctx, { value, previous, left, right, top, bottom, state }) {
    const ratio = devicePixelRatio;
    if (value === null) return;
    ctx.lineWidth = 1.5 * ratio;
    ctx.strokeStyle = colours.voltage;
    if (value === OFTEN) {
      ctx.fillStyle = `${colours.voltage}70`;
      ctx.fillRect(left, top, Math.max(ratio, right - left), bottom - top);
    } else if (state) {
      ctx.fillStyle = `${stateColour(value)}${colours.dark ? "66" : "40"}`;
      ctx.fillRect(left, top, Math.max(ratio, right - left), bottom - top);
      ctx.fillStyle = stateColour(value);
      ctx.fillRect(left, top, ratio, bottom - top);
      if (ctx.measureText(value).width + 8 * ratio < right - left) {
        ctx.fillStyle = colours.ink;
        ctx.fillText(value, (left + right) / 2, (top + bottom) / 2 + ratio / 2);
      }
    } else {
      const y = value ? top : bottom;
      ctx.beginPath();
      const edge = previous !== null && previous !== OFTEN && previous !== value;
      ctx.moveTo(left, edge ? (value ? bottom : top) : y);
      if (edge) ctx.lineTo(left, y);
      ctx.lineTo(right, y);
      ctx.stroke();
    }
  }

  readout(t) {
    if (t === null) return this.chip.replaceChildren(); // its lanes have their names at the left
    this.say(LANES.map(([key, name]) => {
      const changes = this.levels[key] ?? [];
      const at = lastAt(changes.map(([tick]) => tick), t);
      if (at < 0 || changes[at][1] === null) return null;
      const value = key === "link_state" ? changes[at][1] : changes[at][1] === OFTEN ? "changes" : changes[at][1] ? "high" : "low";
      const long = at + 1 < changes.length && at > 0 ? ` for ${duration(changes[at + 1][0] - changes[at][0], this.tickSeconds())}` : "";
      return [`${name} ${value === OFTEN ? "changes" : value}${long}`];
    }));
  }

  text() {
    return LANES.map(([key, name]) => {
      const seen = (this.levels[key] ?? []).map(([, value]) => value);
      if (seen.length === 0) return "";
      const plain = (value) => (value === null ? "not known" : value === OFTEN ? "changing often" : key === "link_state" ? value : value ? "high" : "low");
      return seen.length === 1 ? `${name} ${plain(seen[0])}` : `${name} from ${plain(seen[0])} to ${plain(seen.at(-1))} in ${seen.length - 1} changes`;
    }).filter(Boolean).join("; ");
  }

  edges(t, reach) {
    return LANES.flatMap(([key]) => (this.levels[key] ?? []).map(([tick]) => tick).filter((tick) => Math.abs(tick - t) <= reach));
  }
}

/** Whether an answer has every change of the capture. */
function complete(levels) {
  return Object.values(levels).every((changes) => changes.length < MOST_KEPT && changes.every(([, value]) => value !== OFTEN));
}

/** States that save power cool, those at work warm, states in transition grey. */
function stateColour(state) {
  if (/^L1\.[12]/.test(state)) return colours.captures[0];
  if (/^L1/.test(state)) return colours.captures[5];
  if (/^L0s/.test(state)) return colours.captures[2];
  if (/^L0/.test(state)) return colours.captures[1];
  return colours.muted;
}
