/** Input of the user: pointer, keys, buttons, and the browser's own changes of the page. */

import { gutter } from "./chart.js";
import { $ } from "./dom.js";
import { listen } from "./gestures.js";
import { keyboard } from "./keys.js";
import { colours } from "./theme.js";

/** Time without a change of size after which the page is arranged, in milliseconds. */
const RESIZE_MS = 60;

export class Controls {
  /** @type {?("a"|"b")} the cursor that the next click sets, if chosen by its button */
  #armed = null;

  /** @param {import("./page.js").Page} page */
  constructor(page) {
    this.page = page;
    this.#pointer();
    this.#keys();
    this.#browser();
  }

  #pointer() {
    const { page } = this;
    const { stack, store, navigation } = page;
    listen($("stage"), {
      plot: () => ({ left: gutter(), width: stack.width }),
      view: () => page.state,
      look: (begin, end) => navigation.look(begin, end),
      hover: (x, y) => stack.hover(x, y),
      leave: () => stack.leave(),
      click: (x, y) => this.#click(x, y),
      cursors: () => [["a", page.state.a], ["b", page.state.b]],
      moveCursor: (name, x, y) => store.set({ [name]: stack.snapped(Math.max(0, Math.min(stack.width, x)), y) }),
      selecting: (from, to) => stack.lines.choose(from, to),
      between: (from, to) => store.set({ a: Math.round(from), b: Math.round(to) }),
    });
  }

  #click(x, y) {
    const { stack, store, state: { a, b } } = this.page;
    if (x < 0 || x > stack.width) return;
    const { row, y: inside } = stack.rowAt(y);
    const command = this.#armed === null && row === stack.commands ? stack.commands.at(x, inside) : null;
    if (command) store.set({ command });
    else this.#setCursor(this.#armed ?? (a === null || b !== null ? "a" : "b"), stack.snapped(x, y));
  }

  #setCursor(name, tick) {
    const { store, state } = this.page;
    // a third click begins anew
    const anew = this.#armed === null && name === "a" && state.a !== null && state.b !== null;
    this.#arm(null);
    store.set({ [name]: Math.round(tick), ...(anew ? { b: null } : {}) });
  }

  #arm(name) {
    this.#armed = name;
    for (const one of ["a", "b"]) $(`cursor-${one}`).setAttribute("aria-pressed", String(name === one));
  }

  #cursorHere(name) {
    const { stack, state: { begin, end } } = this.page;
    const tick = stack.pointer ? stack.snapped(stack.pointer.x, stack.pointer.y) : (begin + end) / 2;
    this.#arm(name);
    this.#setCursor(name, tick);
  }

  #keys() {
    const { page } = this;
    const { navigation, store, following } = page;
    const act = {
      zoomIn: () => navigation.zoom(0.5), zoomOut: () => navigation.zoom(2), pan: (share) => navigation.pan(share),
      whole: () => navigation.whole(), back: () => navigation.back(),
      cursorA: () => this.#cursorHere("a"), cursorB: () => this.#cursorHere("b"),
      cursorsZoom: () => navigation.toCursors(),
      cursorsClear: () => store.set({ a: null, b: null }),
      jump: (what, direction) => page.search.jump(what, direction),
      search: () => $("search-above").focus(),
      follow: () => !$("follow").hidden && following.follow(!following.on),
      rows: () => $("rows-menu").toggleAttribute("open"),
      theme: () => store.set({ theme: page.state.theme === "light" || (page.state.theme === "auto" && !colours.dark) ? "dark" : "light" }),
      link: () => this.#link(),
      help: () => $("keys", HTMLDialogElement).showModal(),
      escape: () => {
        this.#arm(null);
        store.set({ command: null });
        $("rows-menu").removeAttribute("open");
      },
    };
    document.addEventListener("keydown", keyboard(act));
    const toggle = (name) => this.#arm(this.#armed === name ? null : name);
    const buttons = {
      "zoom-in": act.zoomIn, "zoom-out": act.zoomOut, back: act.back, whole: act.whole, "cursors-zoom": act.cursorsZoom, "cursors-clear": act.cursorsClear,
      follow: act.follow, theme: act.theme, link: act.link, help: act.help, "cursor-a": () => toggle("a"), "cursor-b": () => toggle("b"),
    };
    for (const [id, run] of Object.entries(buttons)) $(id).addEventListener("click", run);
    const of = $("histogram-of", HTMLSelectElement);
    of.addEventListener("change", () => store.set({ histogram: of.value }));
    document.addEventListener("pointerdown", ({ target }) => {
      if (target instanceof Element && !target.closest("#rows-menu")) $("rows-menu").removeAttribute("open");
    });
  }

  #browser() {
    const { page } = this;
    const resized = () => page.busy.later("resize", RESIZE_MS, () => page.resized());
    new ResizeObserver(resized).observe($("main"));
    addEventListener("resize", resized);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.recolour());
    addEventListener("hashchange", () => page.store.set(page.navigation.fragment()));
    addEventListener("beforeprint", () => page.print(true));
    addEventListener("afterprint", () => page.print(false));
    matchMedia("print").addEventListener("change", ({ matches }) => page.print(matches));
  }

  async #link() {
    const { navigation, words } = this.page;
    navigation.keep();
    try {
      await navigator.clipboard.writeText(location.href);
      words.say("The address of this view is copied. It opens here as long as this `wattbell view` runs; the text behind the # opens the same view later.");
    } catch {
      words.say("This browser does not let the page copy: take the address from its address bar.");
    }
  }
}
