/** Saving the selection as a file, in the formats that the server has. */

import { ask, query } from "./api.js";
import { $, part } from "./dom.js";


/**
 * @param {() => {begin: number, end: number}} chosen the selection in the page's ticks
 * @param {() => import("./source.js").Source} source the capture shown
 * @param {(a: string) => void} say
 */
export function saving(chosen, source, say) {
  const frame = $("download", HTMLIFrameElement);
  const form = $("export-format", HTMLSelectElement);
  ask("formats").then((formats) => {
    form.replaceChildren(...formats.map(({ name, title }) => new Option(title, name)));
  }).catch((error) => say(`No format to save in: ${error.message}`));
  part($("export"), "form").addEventListener("submit", (event) => {
    event.preventDefault();
    const { begin, end } = chosen();
    const from = source();
    // into a frame: a file is saved and leaves the frame as it was, an error is a page of one line, which is told
    frame.src = `api/${from.k}/export${query({ begin: Math.floor(from.toCapture(begin)), end: Math.ceil(from.toCapture(end)), format: form.value })}`;
    say("Making the file…");
  });
  frame.addEventListener("load", () => {
    const text = frame.contentDocument?.body?.textContent?.trim();
    if (!text) return;
    let told = text;
    try {
      told = JSON.parse(text).error ?? text;
    } catch {
      // not JSON: as it is
    }
    say(`Not saved: ${told}`);
  });
}
