/** The panel's questions: figures, histogram and energies of the selection, and the picture of the whole capture. */

import { Feed } from "./api.js";
import { $ } from "./dom.js";
import { commandLines, EnergyPanel } from "./energy.js";
import { Histogram } from "./histogram.js";
import { Overview } from "./overview.js";
import { showCommand, showSpan } from "./panel.js";

/** Points of the picture of the whole capture. */
const STRIP = 600;

export class Figures {
  /** @param {import("./page.js").Page} page */
  constructor(page) {
    this.page = page;
    this.overview = new Overview($("overview"), (begin, end) => page.navigation.look(begin, end));
    this.histogram = new Histogram($("histogram-plot"));
    this.energy = new EnergyPanel(() => this.work());
    const failed = (error) => page.words.say(error.message);
    this.spanFeed = new Feed(({ source, begin, end }) => source.ask("span", { begin, end }), (answer, wish) => showSpan(answer, wish, page.tickSeconds), failed);
    this.histogramFeed = new Feed(({ source, begin, end, of }) => source.ask("histogram", { begin, end, of, bins: 48 }), (answer) => this.histogram.draw(answer), () => this.histogram.draw(null));
    this.overviewFeed = new Feed(({ source, width }) => this.#strip(source, width), (answer) => {
      if (answer) this.overview.draw(page.extent, answer.t, answer.values);
    }, failed);
  }

  /** Whether the panel shows the selection. */
  get idle() {
    return [this.spanFeed, this.histogramFeed, this.overviewFeed].every((feed) => feed.idle);
  }

  /** The selection: between the cursors, else the view. */
  chosen() {
    const { a, b, begin, end } = this.page.state;
    if (a === null || b === null) return { begin, end, between: false };
    return { begin: Math.min(a, b), end: Math.max(a, b), between: true, a, b };
  }

  /** Asks for the figures of the selection. */
  ask() {
    const { source, busy } = this.page;
    if (source.about.live) return;
    const chosen = this.chosen();
    this.spanFeed.want({ source, ...chosen });
    this.energy.show(source, chosen);
    const of = this.#histogramOf();
    $("histogram").hidden = of === null;
    if (of !== null) this.histogramFeed.want({ source, begin: chosen.begin, end: chosen.end, of });
    $("export-what").textContent = chosen.between ? "A to B" : "the view";
    busy.settled();
  }

  /** The quantity of the histogram: as chosen if the capture has it. @returns {?string} */
  #histogramOf() {
    const { has } = this.page.source.about;
    const select = $("histogram-of", HTMLSelectElement);
    const options = [...select.options];
    for (const option of options) option.disabled = option.value === "latency" ? !has.commands : !has.rail;
    const usable = options.find(({ value, disabled }) => value === this.page.state.histogram && !disabled) ?? options.find(({ disabled }) => !disabled);
    if (!usable) return null;
    select.value = usable.value;
    return usable.value;
  }

  /** Asks for the picture of the whole capture. */
  askOverview() {
    this.overviewFeed.want({ source: this.page.source, width: Math.round(this.page.stack.width) });
  }

  async #strip(source, width) {
    const { begin, end } = this.page.extent;
    const span = { begin, end, points: Math.min(width, STRIP) };
    if (source.about.has.rail) {
      const { t, power } = await source.ask("rail", span);
      return { t, values: power.mean };
    }
    if (!source.about.has.commands) return null;
    const { t, iops } = await source.ask("load", span);
    return { t, values: iops };
  }

  /** Has power states and energies worked out; for a light capture unprompted, once its picture is there. */
  async work() {
    const { source, stack, words } = this.page;
    const had = stack.visible().join();
    const asked = source.work();
    this.showEnergy(source);
    await asked;
    if (stack.visible().join() !== had) this.page.arrange();
    words.rowsMenu();
    this.showEnergy(source);
  }

  /** @param {import("./source.js").Source} source */
  showEnergy(source) {
    const { page } = this;
    if (source !== page.source) return;
    this.energy.show(source, this.chosen());
    page.stack.drawStates();
    if (source.energy && page.state.command) this.showPicked();
  }

  /** Shows the command that is picked. */
  showPicked() {
    const { source, store, stack, navigation, tickSeconds, state: { command: row } } = this.page;
    const start = row === null ? 0 : row.doorbell ?? row.fetch ?? row.cqe;
    showCommand(row, tickSeconds, commandLines(row, source), {
      zoom: () => navigation.look(start - (row.cqe - start) * 0.5, Math.max(row.cqe, row.cq_head ?? 0) + (row.cqe - start) * 0.5),
      cursors: () => store.set({ a: start, b: row.cqe }),
      close: () => store.set({ command: null }),
    });
    stack.commands.pick(row);
  }

  fit() {
    this.overview.fit();
    this.histogram.fit();
  }

  redraw() {
    this.overview.chart.redraw();
    this.histogram.chart.redraw();
    this.energy.show(this.page.source, this.chosen());
  }
}
