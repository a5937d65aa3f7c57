/** The figures beside the charts: for the span between the cursors, or for the view. */

import { hex } from "./commands.js";
import { $, make, part } from "./dom.js";
import { INSTANTS, SHOWN, TITLES } from "./fields.js";
import { count, duration, instant, si } from "./units.js";

/** A rate: whole where it is large. */
function plain(value) {
  return value >= 1000 ? count(value) : String(+value.toPrecision(4));
}

function tableRow(tag, cells) {
  const row = make("tr");
  row.append(...cells.map((cell) => make(tag, cell)));
  return row;
}

function fill(table, head, rows) {
  const [top, body] = [make("thead"), make("tbody")];
  top.append(tableRow("th", head));
  body.append(...rows);
  table.replaceChildren(top, body);
}

function terms(list, pairs) {
  list.replaceChildren(...pairs.flatMap(([name, text, attributes]) => [make("dt", name), make("dd", text, attributes)]));
}

/**
 * @param {any} span answer of `span`
 * @param {any} chosen {begin, end, between: whether cursors bound it, a, b}
 * @param {number} tickSeconds
 */
export function showSpan(span, chosen, tickSeconds) {
  $("span-title").textContent = chosen.between ? "Between A and B" : "In view";
  /** @type {[string, string, Record<string, string|number>?][]} */
  const times = chosen.between
    ? [["A", instant(chosen.a, tickSeconds)], ["B", instant(chosen.b, tickSeconds)], ["B − A", duration(chosen.b - chosen.a, tickSeconds), { "data-ticks": chosen.b - chosen.a }]]
    : [["duration", duration(chosen.end - chosen.begin, tickSeconds)]];
  if (chosen.between && chosen.a !== chosen.b) times.push(["1 / (B − A)", si(1 / (Math.abs(chosen.b - chosen.a) * tickSeconds), "Hz", 4)]);
  if (span.energy_j !== null && span.energy_j !== undefined) times.push(["energy", si(span.energy_j, "J", 5), { "data-value": span.energy_j }]);
  if (span.charge_c !== null && span.charge_c !== undefined) times.push(["charge", si(span.charge_c, "C", 5), { "data-value": span.charge_c }]);
  if (span.iops !== null && span.iops !== undefined) times.push(["IOPS", plain(span.iops)]);
  if (span.mb_per_s !== null && span.mb_per_s !== undefined) times.push(["MB/s", plain(span.mb_per_s)]);
  terms($("span-times"), times);
  const rows = [["power", "W"], ["current", "A"], ["voltage", "V"]].filter(([name]) => span[name]).map(([name, unit]) => {
    const row = tableRow("td", [name, ...["mean", "min", "max", "std"].map((key) => si(span[name][key], unit, 4))]);
    row.dataset.quantity = name;
    ["mean", "min", "max", "std"].forEach((key, i) => {
      row.cells[i + 1].dataset.value = span[name][key];
    });
    return row;
  });
  $("span-table").hidden = rows.length === 0;
  fill($("span-table"), ["", "mean", "min", "max", "std"], rows);
  const commands = (span.commands ?? []).map((one) => {
    const row = tableRow("td", [one.name, count(one.count), ...["p50_s", "p99_s", "max_s"].map((key) => si(one[key], "s"))]);
    row.cells[0].title = one.name;
    Object.assign(row.dataset, { opcode: one.opcode, count: one.count, p50: one.p50_s, p99: one.p99_s });
    return row;
  });
  $("span-commands").hidden = commands.length === 0;
  fill($("span-commands"), ["command", "count", "p50", "p99", "max"], commands);
  const lost = span.lost?.length ? [`Missing: ${span.lost.join("; ")}.`] : [];
  if (span.missing_s > 0) lost.unshift(`${si(span.missing_s, "s")} of the rail are missing; the figures are of the rest.`);
  $("span-lost").hidden = lost.length === 0;
  $("span-lost").textContent = lost.join(" ");
}

/**
 * @param {any} row the command picked
 * @param {number} tickSeconds
 * @param {Array} energies lines about the energy of a command of its class
 * @param {{zoom: () => void, cursors: () => void, close: () => void}} act
 */
export function showCommand(row, tickSeconds, energies, act) {
  const section = $("command");
  section.hidden = row === null;
  if (row === null) return;
  part(section, "h2").textContent = `${row.name}${row.latency_s === null || row.latency_s === undefined ? "" : `, ${si(row.latency_s, "s", 4)}`}`;
  const known = INSTANTS.filter(([key]) => row[key] !== null && row[key] !== undefined);
  const start = known.length ? row[known[0][0]] : 0;
  const list = make("dl");
  terms(list, [
    ...(row.admin ? [] : [[TITLES.slba, `${count(row.slba)} (${hex(row.slba)})`], [TITLES.blocks, `${count(row.blocks)}${row.bytes ? `, ${count(row.bytes)} B` : ""}`]]),
    [`${TITLES.qid}, ${TITLES.cid}`, `${row.qid}, ${row.cid}`], [TITLES.status, row.status ? `${hex(row.status)}: failed` : "0: success"],
    ...SHOWN.filter(([key]) => row[key]).map(([key, name]) => [name, count(row[key])]),
    ...energies,
  ]);
  const table = make("table");
  let before = null;
  fill(table, ["instant", "since start", "step"], INSTANTS.map(([key, name]) => {
    const tick = row[key] ?? null;
    const line = tableRow("td", [name, tick === null ? "not seen" : duration(tick - start, tickSeconds), tick === null || before === null ? "" : duration(tick - before, tickSeconds)]);
    Object.assign(line.dataset, { instant: key, ticks: tick === null ? "" : tick });
    if (tick !== null) before = tick;
    return line;
  }));
  const buttons = make("p");
  /** @type {[string, () => void][]} */
  const acts = [["Zoom to it", act.zoom], ["A and B around it", act.cursors], ["Close", act.close]];
  for (const [text, run] of acts) {
    const button = make("button", text, { type: "button" });
    button.addEventListener("click", run);
    buttons.append(button, " ");
  }
  part(section, "div").replaceChildren(list, make("p", `from ${instant(start, tickSeconds)}`), table, buttons);
}

/** Describes the capture. */
export function showAbout(about) {
  const lines = [];
  if (about.utc_origin_s) lines.push(`Begins ${new Date(about.utc_origin_s * 1000).toISOString().replace("T", " ").replace("Z", " UTC")}`);
  lines.push(`${instant(about.end - about.begin, about.tick_s)}, ${count(about.commands)} commands${about.live ? " so far" : about.rail ? `, ${count(about.rail.samples)} samples, one every ${si(about.rail.interval * about.tick_s, "s")}` : ", no rail"}`);
  $("conditions").replaceChildren(...[...lines, ...about.conditions].map((text) => make("li", text)));
}

/** The name of the drive, as far as it is known. */
export function driveText(drive) {
  if (!drive) return "";
  return [drive.model, drive.firmware].filter((text) => typeof text === "string" && text.trim() !== "").map((text) => text.trim()).join(" · ");
}
