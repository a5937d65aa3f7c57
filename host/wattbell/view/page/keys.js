/** The keys, and the panel that lists them. */

import { $, make, part } from "./dom.js";

/** Gestures of the mouse and of fingers; for the panel only. */
const GESTURES = [
  [["wheel", "pinch"], "zoom at the pointer, or between two fingers"],
  [["drag"], "zoom to what is drawn over"],
  [["Shift + drag", "Shift + wheel", "one finger"], "pan"],
  [["Alt + drag"], "set both cursors"],
  [["click", "tap"], "pick a command, or set cursor A, then B; it snaps to samples, edges and instants; lines can be dragged"],
];

/**
 * @param {any} act actions of the keys, by name
 * @returns {(a: KeyboardEvent) => void} to be called for every key
 */
export function keyboard(act) {
  const bindings = [
    [["+", "="], "zoom in", act.zoomIn], [["-", "−"], "zoom out", act.zoomOut],
    [["ArrowLeft", "ArrowRight"], "pan (with Shift: half of the view)", null],
    [["Home", "f"], "the whole capture", act.whole], [["Backspace"], "the view before", act.back],
    [["a"], "cursor A at the pointer (or in the middle)", act.cursorA], [["b"], "cursor B", act.cursorB],
    [["z"], "zoom to the cursors", act.cursorsZoom], [["x"], "without cursors", act.cursorsClear],
    [["n", "N"], "next, previous slow command", null], [["w", "W"], "next, previous wake-up", null], [["g", "G"], "next, previous gap", null],
    [["p", "P"], "next, previous phase", null], [["e", "E"], "next, previous event", null], [["t", "T"], "next, previous power state", null],
    [["s", "S"], "next, previous command as searched", null],
    [["/"], "search", act.search], [["l"], "follow a recording", act.follow], [["r"], "which rows are shown", act.rows],
    [["d"], "dark, light, or as the system", act.theme], [["c"], "copy the address of this view", act.link],
    [["Escape"], "close the command, the menu", act.escape], [["?"], "these keys", act.help],
  ];
  const run = new Map(bindings.flatMap(([keys, , action]) => (action ? keys.map((key) => [key, action]) : [])));
  for (const [letter, what] of [["n", "slow"], ["w", "wake-up"], ["g", "gap"], ["p", "phase"], ["e", "event"], ["t", "state"], ["s", "search"]]) {
    run.set(letter, () => act.jump(what, 1));
    run.set(letter.toUpperCase(), () => act.jump(what, -1));
  }
  describe([...bindings.map(([keys, text]) => [keys, text]), ...GESTURES]);
  return (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof Element && event.target.closest("input, select, textarea, dialog"))) return;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") act.pan((event.key === "ArrowLeft" ? -1 : 1) * (event.shiftKey ? 0.5 : 0.1));
    else if (run.has(event.key)) run.get(event.key)();
    else return;
    event.preventDefault();
  };
}

const NAMES = { ArrowLeft: "←", ArrowRight: "→" };

function describe(lines) {
  part($("keys"), "table").replaceChildren(...lines.map(([keys, text]) => {
    const [row, what] = [make("tr"), make("td")];
    what.append(...keys.map((key) => make("kbd", NAMES[key] ?? key)));
    row.append(what, make("td", text));
    return row;
  }));
}
