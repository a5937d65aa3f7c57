/** How often which value: of the selection's power, current, voltage or latency. */

import { FONT, fromZero, NO_SELECTION } from "./chart.js";
import { colours } from "./theme.js";
import { axisLabels, count, si } from "./units.js";

export class Histogram {
  constructor(host) {
    this.host = host;
    /** @type {any} */
    this.answer = { edges: [], counts: [], unit: "" };
    this.chart = new uPlot({
      width: Math.max(60, host.clientWidth || 290), height: 108, padding: [6, 6, 0, 0],
      cursor: { show: false }, select: NO_SELECTION, legend: { show: false },
      scales: { x: { time: false, auto: false, range: () => [-0.5, Math.max(1, this.answer.counts.length) - 0.5] }, y: { range: fromZero } },
      axes: [
        {
          stroke: () => colours.muted, font: FONT, size: 22, gap: 3, grid: { show: false }, ticks: { show: true, size: 3, stroke: () => colours.muted },
          space: () => 1, incrs: () => [1], splits: () => this.#splits(), values: (self, splits) => splits.map((place) => si(this.answer.edges[place + 0.5], this.answer.unit)),
        },
        { stroke: () => colours.muted, font: FONT, size: 40, gap: 3, space: () => 24, grid: { stroke: () => colours.grid, width: 1 }, ticks: { show: false }, values: (self, splits, axis, space, increment) => axisLabels(splits, "", increment) },
      ],
      series: [{}, { stroke: () => colours.voltage, fill: () => `${colours.voltage}aa`, width: 0, paths: uPlot.paths.bars?.({ size: [0.92, 60] }), points: { show: false } }],
    }, [[0], [null]], host);
  }

  /** @param {any} answer of `histogram` */
  draw(answer) {
    this.answer = answer ?? { edges: [], counts: [], unit: "" };
    const { edges, counts, unit, of } = this.answer;
    this.chart.setData([counts.map((_, place) => place), counts.map((many) => many || null)]);
    const most = counts.indexOf(Math.max(...counts));
    const all = counts.reduce((sum, many) => sum + many, 0);
    this.host.setAttribute("aria-label", all === 0 ? "Histogram: nothing to count" :
      `Histogram of ${of}: ${count(all)} values from ${si(edges[0], unit)} to ${si(edges.at(-1), unit)}, most of them from ${si(edges[most], unit)} to ${si(edges[most + 1], unit)}`);
  }

  /** Four edges, at the borders of bars. */
  #splits() {
    const last = this.answer.counts.length;
    return last < 1 ? [] : [0, Math.round(last / 3), Math.round((2 * last) / 3)].filter((place, i, all) => all.indexOf(place) === i).map((place) => Math.max(0, place) - 0.5);
  }

  fit() {
    if (this.host.clientWidth > 60) this.chart.setSize({ width: this.host.clientWidth, height: 108 });
  }
}
