/** A row's chart: one uPlot with the page's time scale, axis, gaps and sizes. */

import { colours, hatching } from "./theme.js";
import { axisLabels } from "./units.js";

const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

/** Width of the axis beside every row, in pixels. */
export function gutter() {
  return innerWidth < 600 && !document.documentElement.classList.contains("printing") ? 58 : 66;
}

/**
 * Shared by all charts: the view in ticks, the grid of the time axis, and the gaps.
 * @type {{begin: number, end: number, time: import("./timeaxis.js").TimeTicks, gaps: any[]}}
 */
export const shared = { begin: 0, end: 1, time: { splits: [], labels: [], base: "" }, gaps: [] };

export { FONT };

/** uPlot's own selection, which no chart has. */
export const NO_SELECTION = { show: false, left: 0, top: 0, width: 0, height: 0 };

/** Draw within a chart's area, in its font, until `ctx.restore()`. */
export function within(ctx, bbox, align) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.font = FONT.replace("11px", `${11 * devicePixelRatio}px`);
  ctx.textBaseline = "middle";
  ctx.textAlign = align;
}

/**
 * @param {HTMLElement} host
 * @param {object} options
 * @param {uPlot.Series[]} options.series uPlot's, without the series of x
 * @param {uPlot.Band[]} [options.bands]
 * @param {any} [options.y] uPlot's scale (its range), `splits`, `labels(splits)`, or `unit` for labels with SI prefixes
 * @param {?string[]} options.gapKinds kinds of loss that concern this row; null: all
 * @param {any} [options.hooks] uPlot's hooks
 * @param {boolean} [options.top] with the time's labels above
 * @param {number} [options.head] pixels above the plot, for the row's name and values
 */
export function makeChart(host, { series, bands = [], y = {}, gapKinds, hooks = {}, top = false, head = 18 }) {
  const width = Math.max(60, host.clientWidth || 600);
  const height = Math.max(24, host.clientHeight || 80);
  const chart = new uPlot({
    width, height,
    padding: [top ? 0 : head, 8, top ? 3 : 6, 0],
    cursor: { show: false },
    select: NO_SELECTION,
    legend: { show: false },
    scales: {
      x: { time: false, auto: false, range: () => [shared.begin, shared.end] },
      y: { range: y.range ?? padded, distr: y.distr ?? 1, dir: y.dir ?? 1 },
    },
    axes: [timeAxis(top), valueAxis(y)],
    series: [{}, ...series],
    bands,
    hooks: {
      ...hooks,
      drawAxes: [(self) => drawGaps(self, gapKinds), ...(hooks.drawAxes ?? [])],
    },
  }, [[shared.begin, shared.end], ...series.map(() => [null, null])], host);
  return chart;
}

function timeAxis(top) {
  return {
    side: 0, size: top ? 22 : 0, gap: 3, font: FONT,
    stroke: () => colours.muted,
    grid: { stroke: () => colours.grid, width: 1 },
    ticks: { show: top, size: 4, stroke: () => colours.muted, width: 1 },
    space: () => 1,
    incrs: () => [(shared.end - shared.begin) / 8],
    splits: () => shared.time.splits,
    values: () => (top ? shared.time.labels : shared.time.splits.map(() => null)),
  };
}

function valueAxis(y) {
  const axis = {
    side: 3, size: gutter(), gap: 4, font: FONT,
    stroke: () => colours.muted,
    grid: { show: true, stroke: () => colours.grid, width: 1 },
    ticks: { show: false },
    space: (self, side, min, max, high) => Math.max(13, Math.min(24, high / 2.3)),
    values: (self, splits, side, space, increment) => (y.labels ? y.labels(splits) : axisLabels(splits, y.unit ?? "", increment)),
  };
  if (y.splits) Object.assign(axis, { splits: (self) => y.splits(self), filter: (self, splits) => splits });
  if (y.grid === false) axis.grid.show = false;
  return axis;
}

/** A range with some air; never one of no height. @returns {[number, number]} */
export function padded(self, min, max) {
  if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max)) return [0, 1];
  const air = (max - min) * 0.08 || Math.abs(max) * 0.02 || 1;
  return [min >= 0 && min - air < 0 ? 0 : min - air, max + air];
}

/** From zero upwards. @returns {[number, number]} */
export function fromZero(self, min, max) {
  return max > 0 && Number.isFinite(max) ? [0, max * 1.06] : [0, 1];
}

/** Least and greatest known value of lists; null without one. @returns {[number|null, number|null]} */
export function limits(lists) {
  let [low, high] = [Infinity, -Infinity];
  for (const list of lists) {
    for (const value of list) {
      if (value === null || value === undefined) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : [null, null];
}

/** Hatches missing data, at least two pixels wide so that no zoom hides it. */
function drawGaps(self, kinds) {
  const { ctx, bbox } = self;
  const mine = shared.gaps.filter((gap) => gap.kind === "ANY" || kinds === null || kinds.includes(gap.kind));
  if (mine.length === 0) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = hatching(ctx);
  ctx.strokeStyle = colours.hatch;
  ctx.lineWidth = devicePixelRatio;
  for (const gap of mine) {
    const left = self.valToPos(Math.max(gap.begin, shared.begin - (shared.end - shared.begin)), "x", true);
    const right = self.valToPos(Math.min(gap.end, shared.end + (shared.end - shared.begin)), "x", true);
    const wide = Math.max(2 * devicePixelRatio, right - left);
    ctx.fillRect(left, bbox.top, wide, bbox.height);
    ctx.strokeRect(left, bbox.top - 2, wide, bbox.height + 4);
  }
  ctx.restore();
}
