// The grid: only the tiles in sight exist. Rows are fetched in blocks, pictures one by one.
const page = document.body, browse = document.getElementById("browse");
const scroll = document.getElementById("scroll"), tall = document.getElementById("tall");
const tiles = document.getElementById("tiles"), count = document.getElementById("count");
const wrong = document.getElementById("wrong"), filter = document.getElementById("filter");
const start = JSON.parse(browse.dataset.start);
const prefix = page.dataset.prefix, number = page.dataset.dataset;

const BLOCK = 60;          // rows of one request
const TALLEST = 8_000_000; // browsers limit the height of an element; a taller grid is scrolled in proportion
const KEPT = 60;           // blocks that are kept

let side = Number(localStorage.getItem("bushel-tile")) || 168;
let total = start.samples, top_ = 0, focused = 0, seen = -1, settling = 0, columns = 1, rowHeight = 1, width = 1;
let query = new URLSearchParams(location.search);
let fields = query.getAll("field");
let generation = 0;
const blocks = new Map(); // number of a block -> its rows, or a promise
const shown = new Map();  // row -> element

function parameters() {
  const now = new URLSearchParams();
  for (const [name, value] of new FormData(filter)) if (value) now.append(name, value);
  return now;
}

function layout() {
  const space = scroll.clientWidth - 16;
  columns = Math.max(space > 240 ? 2 : 1, Math.floor((space + 10) / (side + 10)));
  width = Math.floor((space - 10 * (columns - 1)) / columns);
  const drawn = (fields.length ? fields : [start.main]).some((field) => start.pictures.includes(field));
  rowHeight = Math.round(drawn ? width : Math.max(64, 0.4 * width)) + 62 + 10;
  const real = Math.ceil(total / columns) * rowHeight + 8;
  tall.style.height = `${Math.min(real, TALLEST)}px`;
  tiles.style.setProperty("--tile", `${width}px`);
  tiles.style.setProperty("--high", `${rowHeight - 10}px`);
}

const realHeight = () => Math.ceil(total / columns) * rowHeight + 8;
const farthest = () => Math.max(0, realHeight() - scroll.clientHeight);
const range = () => Math.max(0, Math.min(realHeight(), TALLEST) - scroll.clientHeight);

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

function settle() { // put the scroll bar where the rows are
  if (realHeight() <= TALLEST) return;
  const place = Math.min(Math.max((top_ / farthest()) * range(), top_ > 0 ? 2 : 0), top_ < farthest() ? range() - 2 : range());
  if (Math.abs(place - scroll.scrollTop) > 1) { scroll.scrollTop = place; }
  seen = scroll.scrollTop;
}

function goTo(row, align) {
  focused = Math.min(Math.max(row, 0), Math.max(total - 1, 0));
  const above = Math.floor(focused / columns) * rowHeight;
  if (align || above < top_) top_ = above;
  else if (above + rowHeight > top_ + scroll.clientHeight) top_ = above + rowHeight + 8 - scroll.clientHeight;
  top_ = Math.min(Math.max(top_, 0), farthest());
  seen = realHeight() <= TALLEST ? top_ : (top_ / (farthest() || 1)) * range();
  scroll.scrollTop = seen;
  seen = scroll.scrollTop;
  draw();
}

function draw() {
  const first = Math.max(0, Math.floor(top_ / rowHeight) - 1) * columns;
  const last = Math.min(total, (Math.ceil((top_ + scroll.clientHeight) / rowHeight) + 1) * columns);
  for (const [row, tile] of shown) if (row < first || row >= last) { tile.querySelectorAll("img").forEach((image) => image.removeAttribute("src")); tile.remove(); shown.delete(row); }
  for (let row = first; row < last; row++) {
    let tile = shown.get(row);
    if (!tile) { tile = document.createElement("li"); shown.set(row, tile); tiles.append(tile); fill(row, tile); }
    const left = (row % columns) * (width + 10), above = Math.floor(row / columns) * rowHeight - top_;
    tile.style.transform = `translate(${left + 8}px, ${above + 8}px)`;
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
    if (made === generation) blocks.delete(block);
    tile.className = "tile broken";
    tile.replaceChildren(text("p", error.message, "why"));
  }
  if (blocks.size > KEPT) blocks.delete(blocks.keys().next().value);
}

async function fetchBlock(block) {
  await new Promise((go) => setTimeout(go, 30)); // while the bar is dragged, blocks that pass by are not asked for
  const near = Math.floor(top_ / rowHeight) * columns;
  if (Math.abs(block * BLOCK - near) > 20 * BLOCK) { blocks.delete(block); throw new Error("…"); }
  const asked = new URLSearchParams(query);
  asked.delete("field");
  for (const field of fields) asked.append("field", field);
  asked.set("first", block * BLOCK);
  asked.set("count", BLOCK);
  const made = generation, answer = await fetch(`${prefix}/api/${number}/rows?${asked}`);
  const found = await answer.json();
  if (!answer.ok) { if (made === generation) complain(found.error); throw new Error(found.error); }
  if (made === generation) { complain(""); settleTotal(found.total); }
  return found.rows;
}

function settleTotal(now) {
  if (now !== total) {
    total = now;
    layout();
    if (top_ > farthest()) { top_ = 0; scroll.scrollTop = 0; seen = 0; }
    draw();
  }
  const all = start.samples, whole = now === all;
  count.textContent = whole ? `${all.toLocaleString("en")} samples` : `${now.toLocaleString("en")} of ${all.toLocaleString("en")} samples`;
}

function complain(why) { wrong.textContent = why; wrong.hidden = !why; }

function text(kind, content, style) {
  const made = document.createElement(kind);
  made.textContent = content;
  if (style) made.className = style;
  return made;
}

function show(tile, row, found) {
  if (!found) { tile.remove(); shown.delete(row); return; }
  tile.className = "tile";
  const link = document.createElement("a");
  const kept = query.toString();
  link.href = `${prefix}/d/${number}/s/${found.position}${kept ? `?${kept}` : ""}`;
  link.dataset.row = row;
  link.tabIndex = row === focused ? 0 : -1;
  const values = new Map(found.values);
  const box = document.createElement("span");
  box.className = `box n${Math.min(found.cells.length, 4)}`;
  for (const cell of found.cells) box.append(cellOf(cell, found, values));
  const named = new Set(found.cells.map((cell) => cell.field));
  const rest = found.values.filter(([name]) => !named.has(name));
  const line = text("span", "", "values");
  for (const [name, value] of rest) { const chip = text("span", value, "chip"); chip.title = `${name}: ${value}`; line.append(chip); }
  if (found.error) { const why = text("span", found.error, "chip bad"); why.title = found.error; line.append(why); }
  link.append(box, text("span", found.key, "key"), line);
  link.title = found.key;
  tile.replaceChildren(link);
  tile.setAttribute("aria-setsize", total);
  tile.setAttribute("aria-posinset", row + 1);
  if (wantsFocus === row) { wantsFocus = -1; link.focus({ preventScroll: true }); }
}

function cellOf(cell, found, values) {
  if (!cell.there) return text("span", `no ${cell.field}`, "none");
  if (cell.kind !== "picture") return text("span", values.get(cell.field) ?? "…", "words");
  const image = document.createElement("img");
  const pixels = Math.ceil((width / Math.min(Math.max(found.cells.length, 1), 2)) * (devicePixelRatio || 1));
  image.alt = cell.field;
  image.decoding = "async";
  image.src = `${prefix}/d/${number}/thumb?i=${found.position}&f=${encodeURIComponent(cell.field)}&side=${pixels}&v=${page.dataset.version}`;
  image.addEventListener("error", async () => {
    if (!image.getAttribute("src")) return;
    const answer = await fetch(image.src);
    const why = answer.ok ? "this picture cannot be shown" : (await answer.json()).error;
    const card = text("span", why, "why");
    card.title = why;
    image.replaceWith(card);
  }, { once: true });
  return image;
}

let wantsFocus = -1;
function move(row) {
  row = Math.min(Math.max(row, 0), total - 1);
  const before = shown.get(focused)?.querySelector("a");
  if (before) before.tabIndex = -1;
  goTo(row);
  const link = shown.get(focused)?.querySelector("a");
  if (link) { link.tabIndex = 0; link.focus({ preventScroll: true }); } else wantsFocus = focused;
}

scroll.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const screen = Math.max(1, Math.floor(scroll.clientHeight / rowHeight)) * columns;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, PageDown: screen, PageUp: -screen };
  if (event.target === scroll && event.key.startsWith("Arrow")) { event.preventDefault(); move(Math.floor(top_ / rowHeight) * columns); return; }
  if (event.key in steps) { event.preventDefault(); move(focused + steps[event.key]); }
  else if (event.key === "Home") { event.preventDefault(); move(0); }
  else if (event.key === "End") { event.preventDefault(); move(total - 1); }
});
tiles.addEventListener("focusin", (event) => { const row = event.target.dataset?.row; if (row !== undefined) focused = Number(row); });

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select") || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === "/") { event.preventDefault(); document.getElementById("fold").open = true; filter.elements.q.focus(); }
  if (event.key === "g") { event.preventDefault(); document.querySelector("#goto input").focus(); }
});
document.getElementById("goto").addEventListener("submit", (event) => {
  event.preventDefault();
  const row = Number(event.target.elements.row.value.replaceAll(/[ ,.]/g, ""));
  if (Number.isInteger(row) && row >= 0) { goTo(row, true); move(row); }
});

export function again(keep) { // after a change of what is selected or shown
  generation++;
  query = parameters();
  blocks.clear();
  for (const tile of shown.values()) tile.remove();
  shown.clear();
  const kept = new URLSearchParams(query);
  for (const field of fields) kept.append("field", field);
  history.replaceState(null, "", kept.size ? `?${kept}` : location.pathname);
  if (!keep) { top_ = 0; focused = 0; scroll.scrollTop = 0; seen = 0; }
  total = total || 1; // one tile asks for the first block, whose answer has the number of rows
  layout();
  draw();
  document.dispatchEvent(new CustomEvent("selected", { detail: query }));
}

let typing = 0;
filter.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(again, 250); });
filter.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(typing); again(); });

const boxes = [...document.querySelectorAll("#fields input")];
if (fields.length) for (const box of boxes) box.checked = fields.includes(box.value);
for (const box of boxes) box.addEventListener("change", () => {
  fields = boxes.filter((each) => each.checked).map((each) => each.value);
  again(true);
});

const tile = document.getElementById("tile");
tile.value = side;
tile.addEventListener("input", () => {
  const row = Math.floor(top_ / rowHeight) * columns;
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
for (const [name, value] of query) if (filter.elements[name] && !filter.elements[name].value) filter.elements[name].value = value;
query = parameters();
scroll.addEventListener("scroll", scrolled, { passive: true });
let last = scroll.clientWidth;
new ResizeObserver(() => { if (scroll.clientWidth !== last) { last = scroll.clientWidth; resized(Math.floor(top_ / rowHeight) * columns); } else draw(); }).observe(scroll);
layout();
seen = scroll.scrollTop;
draw();
document.addEventListener("where", () => again());
