// The grid: only the tiles in sight exist. Rows are fetched in blocks, pictures one by one.
import { counted, element, tileContent } from "./tile.js";
import { HEAD, LINE, copyLine, header, lineContent, newHeader, tableWidth } from "./table.js";
import { fieldsOf, fillForm, isTable, keepRow, parametersOf, pushPlace, rowOf } from "./place.js";

const page = document.body, browse = document.getElementById("browse");
const scroll = document.getElementById("scroll"), tall = document.getElementById("tall");
const tiles = document.getElementById("tiles"), count = document.getElementById("count");
const filter = document.getElementById("filter"), message = document.getElementById("message");
const start = JSON.parse(browse.dataset.start);
const prefix = page.dataset.prefix, number = page.dataset.dataset;

const BLOCK = 60;          // rows of one request
const TALLEST = 8_000_000; // browsers limit the height of an element; a taller grid is scrolled in proportion
const KEPT = 60;           // blocks that are kept
const RETRY = 3000;        // milliseconds until a server that does not answer is asked again

let side = Number(localStorage.getItem("bushel-tile")) || 168;
let total = start.samples, top_ = 0, focused = 0, seen = -1, settling = 0, columns = 1, rowHeight = 1, width = 1;
let query = parametersOf(filter), fields = fieldsOf(location.search);
let generation = 0, wantsFocus = -1, retrying = 0;
let table = isTable(location.search);
const head = document.getElementById("head");
const lineNames = () => [...new Set([...start.short, ...start.columns])].filter((name) => !fields.length || fields.includes(name.split(".")[0]));
const picture = () => (fields.length ? fields : [start.main]).find((field) => start.pictures.includes(field));
const blocks = new Map(); // number of a block -> its rows, or a promise
const shown = new Map();  // row -> element

function layout() {
  browse.classList.toggle("as-table", table);
  head.hidden = !table;
  if (table) return layoutTable();
  for (const each of [tall, tiles]) each.removeAttribute("role");
  tall.removeAttribute("aria-label");
  const space = scroll.clientWidth - 32; // margins of 16 px
  columns = Math.max(space > 240 ? 2 : 1, Math.floor((space + 10) / (side + 10)));
  width = Math.floor((space - 10 * (columns - 1)) / columns);
  const drawn = (fields.length ? fields : [start.main]).some((field) => start.pictures.includes(field));
  rowHeight = Math.round(drawn ? width : Math.max(96, 0.6 * width)) + 62 + 10;
  tall.style.height = `${Math.min(realHeight(), TALLEST)}px`;
  tiles.style.setProperty("--tile", `${width}px`);
  tiles.style.setProperty("--high", `${rowHeight - 10}px`);
}

function layoutTable() {
  columns = 1;
  rowHeight = LINE;
  width = Math.max(tableWidth(lineNames(), picture()), scroll.clientWidth - 24);
  tall.setAttribute("role", "table");
  tiles.setAttribute("role", "rowgroup");
  tall.setAttribute("aria-label", "Samples");
  tall.style.height = `${Math.min(realHeight(), TALLEST)}px`;
  tall.style.width = `${width}px`;
  tiles.style.setProperty("--tile", `${width}px`);
  tiles.style.setProperty("--high", `${rowHeight}px`);
}

function drawHead() {
  if (!table) return;
  newHeader();
  header(head, lineNames(), start.columns, picture(), query.get("sort") ?? "", (sort) => { filter.elements.sort.value = sort; again(); });
}

const realHeight = () => Math.ceil(total / columns) * rowHeight + 8 + (table ? HEAD : 0);
const farthest = () => Math.max(0, realHeight() - scroll.clientHeight);
const range = () => Math.max(0, Math.min(realHeight(), TALLEST) - scroll.clientHeight);
const firstRow = () => Math.floor((top_ + rowHeight / 2) / rowHeight) * columns;

function scrolled() {
  const now = scroll.scrollTop, moved = now - seen;
  if (realHeight() <= TALLEST) top_ = now;
  else if (now <= 0) top_ = 0;
  else if (now >= range() - 1) top_ = farthest();
  else if (seen >= 0 && Math.abs(moved) < 2 * scroll.clientHeight) top_ += moved; // a wheel moves by pixels
  else top_ = (now / range()) * farthest();                                       // the scroll bar by shares
  top_ = Math.min(Math.max(top_, 0), farthest());
  seen = now;
  draw();
  clearTimeout(settling);
  settling = setTimeout(settle, 160);
}

function settle() { // put the scroll bar where the rows are, and the row into the address
  keep();
  if (realHeight() <= TALLEST) return;
  const place = Math.min(Math.max((top_ / farthest()) * range(), top_ > 0 ? 2 : 0), top_ < farthest() ? range() - 2 : range());
  if (Math.abs(place - scroll.scrollTop) > 1) { scroll.scrollTop = place; }
  seen = scroll.scrollTop;
}

function keep() { keepRow(query, fields, firstRow(), top_); }

function scrollTo(top) {
  top_ = Math.min(Math.max(top, 0), farthest());
  scroll.scrollTop = realHeight() <= TALLEST ? top_ : (top_ / (farthest() || 1)) * range();
  seen = scroll.scrollTop;
  draw();
}

function goTo(row, align) {
  focused = Math.min(Math.max(row, 0), Math.max(total - 1, 0));
  const above = Math.floor(focused / columns) * rowHeight;
  let top = top_;
  if (align || above < top) top = above;
  else if (above + rowHeight + (table ? HEAD : 0) > top + scroll.clientHeight) top = above + rowHeight + 8 + (table ? HEAD : 0) - scroll.clientHeight;
  scrollTo(top);
}

function draw() {
  const first = Math.max(0, Math.floor(top_ / rowHeight) - 1) * columns;
  const last = Math.min(total, (Math.ceil((top_ + scroll.clientHeight) / rowHeight) + 1) * columns);
  for (const [row, tile] of shown) if (row < first || row >= last) { tile.querySelectorAll("img").forEach((image) => image.removeAttribute("src")); tile.remove(); shown.delete(row); }
  for (let row = first; row < last; row++) {
    let tile = shown.get(row);
    if (!tile) { tile = document.createElement("li"); if (table) tile.setAttribute("role", "row"); shown.set(row, tile); tiles.append(tile); fill(row, tile); }
    const left = (row % columns) * (width + 10), above = Math.floor(row / columns) * rowHeight - top_;
    tile.style.transform = table ? `translate(0, ${above + HEAD}px)` : `translate(${left + 8}px, ${above + 8}px)`;
  }
}

async function fill(row, tile) {
  tile.className = "tile waiting";
  const block = Math.floor(row / BLOCK), made = generation;
  if (!blocks.has(block)) blocks.set(block, fetchBlock(block));
  try {
    const rows = await blocks.get(block);
    if (made !== generation || shown.get(row) !== tile) return;
    show(tile, row, rows[row - block * BLOCK]);
  } catch (error) {
    if (made !== generation) return;
    blocks.delete(block);
    if (shown.get(row) === tile && error.message === "passed") { tile.remove(); shown.delete(row); } // drawn when it is reached
  }
  if (blocks.size > KEPT) blocks.delete(blocks.keys().next().value);
}

async function fetchBlock(block) {
  await new Promise((go) => setTimeout(go, 30)); // while the bar is dragged, blocks that pass by are not asked for
  const near = Math.floor(top_ / rowHeight) * columns;
  if (Math.abs(block * BLOCK - near) > 20 * BLOCK) throw new Error("passed");
  const asked = new URLSearchParams(query), made = generation;
  for (const field of table && picture() ? [picture()] : fields) asked.append("field", field);
  if (table || start.columns.some((name) => name.endsWith(".fps"))) asked.set("columns", "1");
  asked.set("first", block * BLOCK);
  asked.set("count", BLOCK);
  let answer, found;
  try {
    answer = await fetch(`${prefix}/api/${number}/rows?${asked}`);
    found = await answer.json();
  } catch (error) { // no answer, or one that is not from the viewer
    if (made === generation) gone();
    throw error;
  }
  if (!answer.ok) {
    if (made === generation) say("wrong", found.error);
    throw new Error(found.error);
  }
  if (made === generation) settleTotal(found.total);
  return found.rows;
}

// One message in place of the tiles: the error, or that no sample was found.
function say(kind, text) {
  message.className = `message ${kind}`;
  message.hidden = !kind;
  tall.hidden = !!kind;
  message.querySelector("p").textContent = text ?? "";
  message.querySelector("[data-do=all]").hidden = !query.size;
  message.querySelector("[data-do=again]").hidden = kind !== "gone";
  if (kind) count.textContent = kind === "none" ? `0 of ${counted(start.samples, "sample")}` : "";
  if (kind) document.dispatchEvent(new CustomEvent("count", { detail: 0 }));
  document.dispatchEvent(new CustomEvent("said", { detail: kind }));
}

function gone() {
  say("gone", "The viewer does not answer: its process has ended, or the connection is lost.");
  clearTimeout(retrying);
  retrying = setTimeout(() => again(true), RETRY);
}

function settleTotal(now) {
  if (!now) { total = 0; say("none", start.samples ? "No sample matches." : "This dataset has no samples."); return; }
  if (!message.hidden) say("");
  if (now !== total) {
    total = now;
    layout();
    if (top_ > farthest()) { top_ = farthest(); scrollTo(top_); } else draw();
  }
  const all = start.samples;
  document.dispatchEvent(new CustomEvent("count", { detail: now }));
  if (query.has("by")) count.textContent = counted(now, "episode");
  else count.textContent = (now === all ? "" : `${now.toLocaleString("en")} of `) + counted(all, "sample");
  if (resuming !== null) { const row = resuming; resuming = null; resume(row); }
}

function show(tile, row, found) {
  if (!found) { tile.remove(); shown.delete(row); return; }
  tile.className = "tile";
  found.compared = start.compared;
  const kept = new URLSearchParams(query);
  for (const field of fields) kept.append("field", field);
  if (table !== isTable("")) kept.set("view", table ? "table" : "grid");
  const link = tileContent(found, `${prefix}/d/${number}/${query.has("by") ? "play" : "s"}/${found.position}${kept.size ? `?${kept}` : ""}`, width);
  link.dataset.row = row;
  link.dataset.position = found.position;
  link.tabIndex = row === focused ? 0 : -1;
  tile.replaceChildren(...(table ? lineContent(found, link, lineNames(), picture()) : [link]));
  tile.dataset.row = row;
  const places = table ? { "aria-rowindex": row + 1 } : { "aria-setsize": total, "aria-posinset": row + 1 };
  for (const [name, value] of Object.entries(places)) tile.setAttribute(name, value);
  document.dispatchEvent(new CustomEvent("tile", { detail: { tile, row, found } }));
  if (wantsFocus === row) { wantsFocus = -1; link.focus({ preventScroll: true }); }
}

function move(row) {
  row = Math.min(Math.max(row, 0), total - 1);
  const before = shown.get(focused)?.querySelector("a");
  if (before) before.tabIndex = -1;
  goTo(row);
  const link = shown.get(focused)?.querySelector("a");
  if (link) { link.tabIndex = 0; link.focus({ preventScroll: true }); } else wantsFocus = focused;
}

function steer(event) { // keys that move in the grid, also before it has the focus
  if (event.altKey || event.ctrlKey || event.metaKey || !total) return;
  const screen = Math.max(1, Math.floor(scroll.clientHeight / rowHeight)) * columns;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: screen, PageUp: -screen, j: 1, k: -1 };
  if (event.key in steps) { event.preventDefault(); move(focused + steps[event.key]); }
  else if (event.key === "Home") { event.preventDefault(); move(0); }
  else if (event.key === "End") { event.preventDefault(); move(total - 1); }
  else if (event.key === "c" && table && shown.has(focused)) { event.preventDefault(); count.textContent = `copied: ${copyLine(shown.get(focused)).slice(0, 60)}`; }
}
scroll.addEventListener("keydown", steer);
tiles.addEventListener("focusin", (event) => { const row = event.target.closest("a")?.dataset.row; if (row !== undefined) focused = Number(row); });
tiles.addEventListener("click", keep, { capture: true }); // before the page is left

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "Escape" && typing) { typing.blur(); scroll.focus(); return; }
  if (typing) return;
  if (event.key === "/") { event.preventDefault(); document.getElementById("fold").open = true; filter.elements.q.focus(); }
  if (event.key === "g") { event.preventDefault(); document.querySelector("#goto input").focus(); }
  if ((event.key === "j" || event.key === "k") && !event.target.closest("#scroll")) { event.preventDefault(); move(focused); }
  else if (event.target === page) steer(event);
});
document.getElementById("goto").addEventListener("submit", (event) => {
  event.preventDefault();
  const row = Number(event.target.elements.row.value.replaceAll(/[ ,.]/g, ""));
  if (Number.isInteger(row) && row >= 0) { goTo(row, true); move(row); keep(); }
});

let resuming = null; // the row to return to when the number of rows is known
function resume(row) {
  if (history.state?.top !== undefined) scrollTo(history.state.top);
  else goTo(row, true);
  focused = row;
}

document.getElementById("view").addEventListener("click", () => {
  const row = firstRow(), address = new URL(location.href);
  table = !table;
  if (table === isTable("")) address.searchParams.delete("view"); else address.searchParams.set("view", table ? "table" : "grid");
  history.pushState(null, "", address);
  tall.style.width = "";
  clear();
  layout();
  drawHead();
  goTo(row, true);
  named();
});
function named() { document.getElementById("view").textContent = table ? "Grid" : "Table"; }

function clear() {
  generation++;
  clearTimeout(retrying);
  blocks.clear();
  for (const tile of shown.values()) tile.remove();
  shown.clear();
}

export function again(keepPlace, typed) { // after a change of the selection or of the view
  clear();
  query = parametersOf(filter);
  if (!keepPlace) { pushPlace(query, fields, typed); top_ = 0; focused = 0; scroll.scrollTop = 0; seen = 0; }
  else keep();
  count.textContent = "…";
  tall.hidden = false;
  total = total || 1; // one tile asks for the first block, whose answer has the number of rows
  layout();
  drawHead();
  draw();
  document.dispatchEvent(new CustomEvent("selected", { detail: query }));
}

addEventListener("popstate", () => {
  clear();
  fillForm(filter, location.search);
  query = parametersOf(filter);
  fields = fieldsOf(location.search);
  table = isTable(location.search);
  tall.style.width = "";
  tick();
  named();
  resuming = rowOf(location.search);
  top_ = 0;
  count.textContent = "…";
  tall.hidden = false;
  total = total || 1;
  layout();
  drawHead();
  draw();
  document.dispatchEvent(new CustomEvent("selected", { detail: query }));
});

let typing = 0;
filter.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => again(false, true), 250); });
filter.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); again(); });
document.addEventListener("where", () => again());
document.addEventListener("retagged", () => again(true));
message.addEventListener("click", (event) => {
  const what = event.target.dataset?.do;
  if (what === "all") { fillForm(filter, ""); again(); scroll.focus(); }
  if (what === "again") again(true);
});

const boxes = [...document.querySelectorAll("#fields input")];
function tick() { for (const box of boxes) box.checked = fields.length ? fields.includes(box.value) : box.value === start.main; }
for (const box of boxes) box.addEventListener("change", () => {
  fields = boxes.filter((each) => each.checked).map((each) => each.value);
  again(true);
});

const tile = document.getElementById("tile");
tile.value = side;
tile.addEventListener("input", () => {
  const row = firstRow();
  side = Number(tile.value);
  localStorage.setItem("bushel-tile", side);
  resized(row);
});

function resized(row) {
  layout();
  for (const each of shown.values()) each.remove();
  shown.clear();
  goTo(row, true);
}

if (matchMedia("(max-width: 720px)").matches) document.getElementById("fold").open = false;
tick();
scroll.addEventListener("scroll", scrolled, { passive: true });
let last = scroll.clientWidth;
new ResizeObserver(() => { if (scroll.clientWidth !== last) { last = scroll.clientWidth; resized(firstRow()); } else draw(); }).observe(scroll);
fillForm(filter, location.search); // a browser may have kept other values
query = parametersOf(filter);
named();
layout();
drawHead();
if (rowOf(location.search)) resume(rowOf(location.search));
seen = scroll.scrollTop;
if (start.samples) draw(); else settleTotal(0);
