/** Colours for drawing on canvases. Okabe and Ito's, as in the reports; brighter ones of the same hues where the page is dark. */

import { penOf } from "./dom.js";

const LIGHT = {
  ink: "#1c2530", muted: "#5b6570", grid: "#e8ebee", paper: "#ffffff", hatch: "#8a949e", hatchBack: "rgba(120,130,140,0.10)",
  power: "#c2571a", current: "#3c7d3c", voltage: "#4a5d73", depth: "#3c7d3c",
  read: "#0072b2", write: "#d55e00", other: "#009e73", admin: "#b0558b", failed: "#661100",
  captures: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#661100", "#56b4e9", "#4d4d4d", "#e69f00"],
  density: ["#dfe5ef", "#9fb6d6", "#5a86b8", "#24568f", "#06264f"],
};
const DARK = {
  ink: "#e6eaee", muted: "#9aa5b1", grid: "#262e37", paper: "#12171d", hatch: "#7d8893", hatchBack: "rgba(150,160,170,0.12)",
  power: "#f08a4b", current: "#79c279", voltage: "#9fb4cc", depth: "#79c279",
  read: "#56b4e9", write: "#f0883e", other: "#2fc79b", admin: "#e39cc6", failed: "#ffb3a1",
  captures: ["#56b4e9", "#f0883e", "#2fc79b", "#e39cc6", "#d9a38f", "#a6d8f5", "#b8b8b8", "#f2c14e"],
  density: ["#1d2f45", "#2b5a86", "#4f93bd", "#a3cbd0", "#fdf3b0"],
};

/** The colours in use; its properties are replaced when the theme changes. */
export const colours = { ...LIGHT, dark: false };

/** @param {"auto"|"light"|"dark"} theme; auto follows the system */
export function choose(theme) {
  const dark = theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  use(dark);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}

/** Colours of paper, whatever the page's are. */
export function printed() {
  use(false);
  document.documentElement.dataset.theme = "light";
}

function use(dark) {
  Object.assign(colours, dark ? DARK : LIGHT, { dark });
  hatchings.clear();
}

const hatchings = new Map();

/** The pattern over missing data. */
export function hatching(context) {
  const size = Math.round(8 * devicePixelRatio);
  let tile = hatchings.get(size);
  if (!tile) {
    tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const pen = penOf(tile);
    pen.fillStyle = colours.hatchBack;
    pen.fillRect(0, 0, size, size);
    pen.strokeStyle = colours.hatch;
    pen.lineWidth = devicePixelRatio;
    pen.beginPath();
    for (const shift of [-size, 0, size]) {
      pen.moveTo(shift - 1, size + 1);
      pen.lineTo(shift + size + 1, -1);
    }
    pen.stroke();
    hatchings.set(size, tile);
  }
  return context.createPattern(tile, "repeat");
}

/** Red, green, blue of a share 0..1 of the densest cell. */
export function densityColour(share) {
  const stops = colours.density;
  const place = Math.min(stops.length - 1.001, Math.max(0, share * (stops.length - 1)));
  const lower = Math.floor(place);
  const [one, other] = [rgb(stops[lower]), rgb(stops[lower + 1])];
  return one.map((value, i) => Math.round(value + (other[i] - value) * (place - lower)));
}

function rgb(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

/** The turn of the colour circle that leaves the most room between any number of hues. */
const GOLDEN = 0.618033988749895;

/** A hue, 0 to 1, with its saturation and lightness, as #rrggbb. */
function hex(hue, saturation, lightness) {
  const part = (n) => {
    const k = (n + 12 * hue) % 12;
    return lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
  };
  return `#${[0, 8, 4].map((n) => Math.round(255 * part(n)).toString(16).padStart(2, "0")).join("")}`;
}

/** The shade behind the name of the phase at a place among the phases: each has its own, and neighbours have hues far apart. */
export function phaseColour(place) {
  const hue = (0.58 + place * GOLDEN) % 1;
  return colours.dark ? hex(hue, 0.3 + 0.05 * (place % 7), 0.17 + 0.022 * (place % 5)) : hex(hue, 0.4 + 0.08 * (place % 7), 0.91 - 0.022 * (place % 5));
}

/** The colour of the capture at a place among those that are open: the palette, then hues far from one another. */
export function captureColour(place) {
  const further = place - colours.captures.length;
  if (further < 0) return colours.captures[place];
  return hex((further * GOLDEN) % 1, 0.5 + 0.1 * (further % 5), (colours.dark ? 0.62 : 0.3) + 0.03 * (further % 7));
}

/** The colour of a command's class. */
export function commandColour(row) {
  if (row.admin) return colours.admin;
  if (row.opcode === 2) return colours.read;
  if (row.opcode === 1) return colours.write;
  return colours.other;
}
