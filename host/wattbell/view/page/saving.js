/** Saving the selection as a file. */

import { query } from "./api.js";

const $ = (id) => document.getElementById(id);

/**
 * @param {function(): {begin: number, end: number}} chosen the selection in the page's ticks
 * @param {function(): object} source the capture shown
 * @param {function(string): void} say
 */
export function saving(chosen, source, say) {
  $("export").querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    const { begin, end } = chosen();
    const from = source();
    // into a frame: a file is saved and leaves the frame as it was, an error is a page of one line, which is told
    $("download").src = `api/${from.k}/export${query({ begin: Math.floor(from.toCapture(begin)), end: Math.ceil(from.toCapture(end)), format: $("export-format").value })}`;
    say("Making the file…");
  });
  $("download").addEventListener("load", () => {
    const text = $("download").contentDocument?.body?.textContent?.trim();
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
