/** Work that waits, and whether the picture shows the view, for programs that drive or measure the page. */

export class Busy {
  /** @type {Map<string, ReturnType<typeof setTimeout>>} */
  #timers = new Map();

  /**
   * @param {() => boolean} rowsIdle whether the rows show the view
   * @param {() => boolean} panelIdle whether the panel does
   * @param {{view: () => string, idle: () => void}} page the text of the view; called when all is drawn
   */
  constructor(rowsIdle, panelIdle, page) {
    this.rowsIdle = rowsIdle;
    this.panelIdle = panelIdle;
    this.page = page;
  }

  /** Runs `act` once nothing has asked for it for `ms`. @param {string} name @param {number} ms @param {() => void} act */
  later(name, ms, act) {
    clearTimeout(this.#timers.get(name));
    this.#timers.set(name, setTimeout(() => {
      this.#timers.delete(name);
      act();
      this.settled();
    }, ms));
    document.body.dataset.busy = "1";
  }

  /** Says on the body whether the picture shows the view. */
  settled() {
    const rows = this.rowsIdle();
    const all = rows && this.panelIdle() && this.#timers.size === 0;
    document.body.dataset.busy = all ? "0" : "1";
    if (all) this.page.idle();
    if (rows) document.body.dataset.drawn = this.page.view();
  }
}
