// Histograms of columns. Classes are chosen by clicks, intervals by a click or by dragging over several.
import { element } from "./tile.js";

const page = document.body, where = document.getElementById("where"), message = document.getElementById("message");
const url = `${page.dataset.prefix}/api/${page.dataset.dataset}/histogram`;
const vector = (kind, attributes) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};
const count = (number) => number.toLocaleString("en");

// The condition of a column is found again in the text, so conditions that were typed, clicked or in the address are the same.
function chosenClasses(found) { // the chosen values, and the text that says so
  const text = where.value;
  const known = [...(choices.get(found.column) ?? []), ...found.bins.map((bin) => bin.value)].filter(Boolean).sort((a, b) => b.length - a.length);
  const one = known.find((value) => new RegExp(`(^|[^\\w.])${escaped(`${found.name} == ${value}`)}($|[^\\w.])`).test(text));
  if (one) return { values: [one], text: `${found.name} == ${one}` };
  const start = `${found.name} in (`, at = text.indexOf(start);
  if (at < 0) return { values: [], text: "" };
  const values = [];
  let place = at + start.length;
  for (;;) {
    const next = known.find((value) => text.startsWith(value, place));
    if (!next) return { values: [], text: "" };
    values.push(next);
    place += next.length;
    if (text[place] === ")") return { values, text: text.slice(at, place + 1) };
    if (!text.startsWith(", ", place)) return { values: [], text: "" };
    place += 2;
  }
}
const choices = new Map(); // column -> values that were chosen, which a search may not list

function chosenRange(found) {
  const number = "(-?[\\d.]+(?:e[+-]?\\d+)?)", name = escaped(found.name);
  const match = new RegExp(`${name} >= ${number} and ${name} <(=?) ${number}`).exec(where.value);
  if (match) return { low: Number(match[1]), high: Number(match[3]), text: match[0] };
  return { text: "" };
}
function escaped(text) { return text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&"); }

function replaceCondition(before, after) {
  let text = where.value.trim();
  if (before) {
    for (const part of [` and (${before})`, `(${before}) and `, ` and ${before}`, `${before} and `, `(${before})`, before])
      if (text.includes(part)) { text = text.replace(part, () => "").trim(); break; }
  }
  if (after) text = text ? `${/\bor\b/.test(text) && !/^\(.*\)$/.test(text) ? `(${text})` : text} and (${after})` : after;
  where.value = text;
  document.dispatchEvent(new Event("where"));
}

function toggleClass(found, value) {
  const now = chosenClasses(found);
  const values = now.values.includes(value) ? now.values.filter((each) => each !== value) : [...now.values, value];
  choices.set(found.column, values);
  const after = values.length > 1 ? `${found.name} in (${values.join(", ")})` : values.length ? `${found.name} == ${values[0]}` : "";
  replaceCondition(now.text, after);
}

function chooseRange(found, first, last) {
  const bins = found.bins, now = chosenRange(found);
  if (bins[first].value) { replaceCondition(where.value.includes(bins[first].condition) ? bins[first].condition : "", where.value.includes(bins[first].condition) ? "" : bins[first].condition); return; }
  const after = `${found.name} >= ${bins[first].low} and ${found.name} ${last === bins.length - 1 ? "<=" : "<"} ${bins[last].high}`;
  replaceCondition(now.text, now.text === after ? "" : after);
}

function ofAll(bin) { return bin.count === bin.all ? count(bin.all) : `${count(bin.count)} of ${count(bin.all)}`; }

function classButton(found, bin, chosen, most) {
  const made = element("button", "");
  made.type = "button";
  made.title = `${bin.label}: ${ofAll(bin)} samples`;
  made.setAttribute("aria-pressed", chosen.includes(bin.value));
  const picture = vector("svg", { class: "meter", viewBox: "0 0 100 3", preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const [style, number] of [["whole", bin.all], ["part", bin.count]])
    picture.append(vector("rect", { class: style, height: 3, width: (100 * number) / most }));
  made.append(element("span", bin.label, "label"), element("span", count(bin.count), "number"), picture);
  made.addEventListener("click", () => toggleClass(found, bin.value));
  return made;
}

function drawClasses(box, found) {
  const chosen = chosenClasses(found).values, most = Math.max(1, ...found.bins.map((bin) => bin.all));
  const list = element("div", "", "classes");
  list.append(...found.bins.map((bin) => classButton(found, bin, chosen, most)));
  box.append(list);
}

let brush = null; // the bars that a pointer is dragged over, and where it began
document.addEventListener("pointerup", () => { for (const bar of brush?.bars.children ?? []) bar.classList.remove("brushed"); brush = null; });

function drawNumbers(box, found) {
  const most = Math.max(1, ...found.bins.map((bin) => bin.all)), range = chosenRange(found);
  const bars = element("div", "", "bars");
  const mark = (to) => [...bars.children].forEach((bar, number) => bar.classList.toggle("brushed", number >= Math.min(brush.from, to) && number <= Math.max(brush.from, to)));
  found.bins.forEach((bin, number) => {
    const made = element("button", ""), high = (value) => (value ? Math.max(2, (100 * value) / most) : 0);
    made.type = "button";
    made.title = `${bin.label}: ${ofAll(bin)} samples`;
    made.setAttribute("aria-label", `${found.column} ${made.title}`);
    const inside = range.text ? Number(bin.low) >= range.low && Number(bin.high) <= range.high : !!bin.value && where.value.includes(bin.condition);
    made.setAttribute("aria-pressed", inside);
    const picture = vector("svg", { viewBox: "0 0 10 100", preserveAspectRatio: "none", "aria-hidden": "true" });
    for (const [style, value] of [["whole", bin.all], ["part", bin.count]])
      picture.append(vector("rect", { class: style, width: 10, height: high(value), y: 100 - high(value) }));
    made.append(picture);
    made.addEventListener("pointerdown", () => { brush = { bars, from: number, moved: false }; });
    made.addEventListener("pointerenter", () => {
      if (brush?.bars !== bars) return;
      brush.moved ||= number !== brush.from;
      if (brush.moved) mark(number);
    });
    made.addEventListener("pointerup", () => { if (brush?.bars === bars && brush.moved) chooseRange(found, Math.min(brush.from, number), Math.max(brush.from, number)); });
    made.addEventListener("click", () => chooseRange(found, number, number)); // also by keyboard; a drag over several ends without a click
    bars.append(made);
  });
  box.append(bars);
  if (found.bins.length > 1) {
    const ends = element("span", "", "ends");
    ends.append(element("span", found.bins[0].label.split(" to ")[0]), element("span", found.bins.at(-1).label.split(" to ")[1]));
    box.append(ends);
  }
}

function tools(details, found) { // the search of classes, and the scale of numbers
  const box = details.querySelector(".tools");
  const searched = found.kind === "classes" && (found.more > 0 || box.querySelector("input")?.value);
  const scaled = found.kind === "numbers" && found.bins.length > 2 && Number(found.bins[0].low) >= 0;
  if (searched && !box.querySelector("input")) {
    const search = element("input", "");
    search.type = "search";
    search.placeholder = "find a class";
    search.setAttribute("aria-label", `Find a value of ${found.column}`);
    let typing = 0;
    search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => load(details), 200); });
    box.replaceChildren(search);
  }
  if (scaled && !box.querySelector("button")) {
    const scale = element("button", "log", "quiet");
    scale.type = "button";
    scale.setAttribute("aria-label", `Logarithmic scale of ${found.column}`);
    scale.setAttribute("aria-pressed", "false");
    scale.addEventListener("click", () => { scale.setAttribute("aria-pressed", scale.getAttribute("aria-pressed") !== "true"); load(details); });
    box.replaceChildren(scale);
  }
  if (!searched && !scaled) box.replaceChildren();
}

function draw(details, found) {
  const box = details.querySelector(".bins");
  box.replaceChildren();
  if (found.kind === "numbers" && found.bins.length > 1) drawNumbers(box, found);
  else drawClasses(box, found);
  tools(details, found);
  const notes = [];
  if (found.more) notes.push(`${count(found.more)} ${found.bins.length ? "more" : "different"} values`);
  else if (!found.bins.length && !found.missing) notes.push("no values");
  if (notes.length) box.append(element("span", notes.join("; ")));
  if (found.missing) {
    const lost = element("button", `${count(found.missing)} without a value`, "link"), condition = `${found.name} is None`;
    lost.type = "button";
    lost.addEventListener("click", () => replaceCondition(where.value.includes(condition) ? condition : "", where.value.includes(condition) ? "" : condition));
    box.append(lost);
  }
}

let asked = 0;
async function load(details) {
  const made = asked, box = details.querySelector(".bins");
  details.dataset.loaded = location.search;
  const query = new URLSearchParams();
  for (const name of ["q", "where"]) { const value = new URLSearchParams(location.search).get(name); if (value) query.set(name, value); }
  query.set("column", details.dataset.column);
  const find = details.querySelector(".tools input")?.value, log = details.querySelector(".tools button[aria-pressed=true]");
  if (find) query.set("find", find);
  if (log) query.set("scale", "log");
  let answer, found;
  try {
    answer = await fetch(`${url}?${query}`);
    found = await answer.json();
  } catch { box.replaceChildren(); return; } // the grid says that the viewer does not answer
  if (made !== asked) return;
  if (answer.ok) draw(details, found);
  else if (silent()) box.replaceChildren();
  else box.replaceChildren(element("span", found.error, "bad"));
}
function silent() { return !message.hidden && ["wrong", "gone"].some((kind) => message.classList.contains(kind)); } // it says all

const all = [...document.querySelectorAll(".column")];
async function reload() {
  asked++;
  const made = asked;
  for (const details of all) {
    if (details.open && made === asked) await load(details);
    else delete details.dataset.loaded;
  }
}
for (const details of all) details.addEventListener("toggle", () => { if (details.open && details.dataset.loaded !== location.search) load(details); });
document.addEventListener("selected", reload);
document.addEventListener("said", () => { if (silent()) for (const details of all) details.querySelector(".bins").replaceChildren(); });
reload();
