/** A capture that is being recorded: its figures, and its end as it grows. */

import { AnswerError } from "./api.js";
import { $, make } from "./dom.js";
import { count, si, UNKNOWN } from "./units.js";

/** Least time between two questions. */
const PAUSE_MS = 200;

/** @type {[string, string, (value: any) => string][]} key of the answer, name, text */
const FIGURES = [
  ["w", "power", (x) => si(x, "W", 4)], ["a", "current", (x) => si(x, "A", 4)], ["v", "voltage", (x) => si(x, "V", 4)],
  ["read_mb_per_s", "read MB/s", (x) => number(x)], ["write_mb_per_s", "write MB/s", (x) => number(x)], ["iops", "IOPS", (x) => si(x, "", 4).trim()],
  ["p99_s", "p99", (x) => si(x, "s")], ["energy_j", "energy", (x) => si(x, "J", 4)], ["lost", "lost", (x) => (Array.isArray(x) ? x.join("; ") || "nothing" : count(x))],
  ["left_s", "left", (x) => `${count(x)} s`],
];

function number(value) {
  return value >= 1000 ? count(value) : value.toFixed(1);
}

/**
 * Asks for the latest figures until the recording has ended. The next question waits until the last answer has been drawn, so that a slow
 * browser asks less often.
 * @param {import("./source.js").Source} source the capture
 * @param {(latest: any) => Promise<void>} grown called with each answer (`t` in the page's ticks); fulfilled when it is drawn
 * @param {() => Promise<void>} ended
 */
export async function watch(source, grown, ended) {
  const strip = $("live");
  strip.hidden = false;
  const places = FIGURES.map(([key, name, text]) => {
    const [place, value] = [make("span"), make("b", UNKNOWN)];
    place.append(make("small", name), value);
    value.dataset.live = key;
    return { key, text, place, value };
  });
  strip.replaceChildren(...places.map(({ place }) => place));
  let silent = 0;
  for (;;) {
    let latest;
    try {
      latest = await source.ask("latest");
    } catch (error) {
      // 409: it is no longer being recorded. Another status passes: the recorder is completing the capture, which may take a while
      if (error.status === 409 || (!(error instanceof AnswerError) && ++silent > 20)) break;
      await pause(5 * PAUSE_MS);
      continue;
    }
    silent = 0;
    for (const { key, text, place, value } of places) {
      const known = latest[key] !== null && latest[key] !== undefined;
      place.hidden = key === "left_s" && !known;
      value.textContent = known ? text(latest[key]) : UNKNOWN;
      if (key === "lost") place.classList.toggle("warn", known && value.textContent !== "nothing" && value.textContent !== "0");
    }
    await grown(latest);
    await pause(PAUSE_MS);
  }
  strip.hidden = true;
  await ended();
}

/** At least so long, and until the browser has drawn. */
function pause(ms) {
  return new Promise((resolve) => setTimeout(() => requestAnimationFrame(resolve), ms));
}
