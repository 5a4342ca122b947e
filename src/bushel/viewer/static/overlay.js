// Annotations on pictures: boxes, polygons, key points, masks and captions, with a legend that hides classes.
import { element } from "./tile.js";

const page = document.body, legend = document.getElementById("overlays");
const base = `${page.dataset.prefix}/d/${page.dataset.dataset}`, api = `${page.dataset.prefix}/api/${page.dataset.dataset}`;
const SVG = "http://www.w3.org/2000/svg";
const KEPT = `bushel-hidden-${page.dataset.dataset}`; // hidden classes, until the tab is closed
const hidden = new Set(JSON.parse(sessionStorage.getItem(KEPT) ?? "[]"));
const drawn = new Map(); // position -> { holder, found, side }
const waiting = new Map(); // position -> its picture, not yet asked for
let fields = [], asking = 0, report = "";

const nameOf = (field, name) => JSON.stringify([field, name ?? null]);
const isHidden = (field, name) => hidden.has("*") || hidden.has(nameOf(field)) || hidden.has(nameOf(field, name));

function made(kind, attributes) {
  const found = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  return found;
}

function titled(node, text) { const title = made("title", {}); title.textContent = text; node.append(title); return node; }

function shapeOf(shape, width, height) {
  const at = shape.places.map(([x, y]) => [x * width, y * height]);
  const line = { stroke: shape.colour, fill: "none", class: "line", "vector-effect": "non-scaling-stroke" };
  const text = shape.score === null ? shape.name : `${shape.name} ${shape.score.toFixed(2)}`;
  if (shape.kind === "polygon") return titled(made("polygon", { ...line, fill: shape.colour, "fill-opacity": .3, points: at.map((each) => each.join(",")).join(" ") }), text);
  if (shape.kind === "points") {
    const group = titled(made("g", {}), text);
    at.forEach(([x, y], number) => { if (shape.seen[number] !== false) group.append(made("path", { ...line, class: "point", d: `M${x} ${y}h0` })); });
    return group;
  }
  const [[left, top], [right, bottom]] = at;
  return titled(made("rect", { ...line, x: left, y: top, width: right - left, height: bottom - top }), text);
}

function label(shape, large) { // the name above a box, on the page of a sample
  const [[left, top]] = shape.places, mark = element("span", shape.score === null ? shape.name : `${shape.name} ${shape.score.toFixed(2)}`, "tag");
  mark.style.left = `${100 * Math.max(0, Math.min(left, .95))}%`;
  mark.style.top = `${100 * Math.max(0, Math.min(top, .97))}%`;
  mark.style.borderColor = shape.colour;
  return large ? mark : "";
}

function draw(position) {
  const { holder, found, large } = drawn.get(position);
  for (const old of holder.querySelectorAll(":scope > :not(img, .why)")) old.remove();
  if (!found.size) return;
  const [width, height] = found.size;
  const picture = made("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "xMidYMid meet", "aria-hidden": "true", class: "marks" });
  for (const mask of found.masks) {
    if (isHidden(mask.field)) continue;
    const asked = new URLSearchParams({ i: position, f: mask.field, side: large ? 512 : 160, v: page.dataset.version });
    for (const [number, name] of mask.classes) if (isHidden(mask.field, name)) asked.append("without", number);
    picture.append(made("image", { href: `${base}/mask?${asked}`, width, height, preserveAspectRatio: "none" }));
  }
  const names = [];
  for (const shape of found.shapes) {
    if (isHidden(shape.field, shape.name)) continue;
    picture.append(shapeOf(shape, width, height));
    if (shape.kind === "box") names.push(label(shape, large));
  }
  holder.append(picture, ...names.filter(Boolean));
  const lines = found.captions.filter((each) => !isHidden(each.field));
  if (lines.length) holder.append(element("span", lines.map((each) => each.text).join("\n"), "said"));
  if (found.errors.length) { const why = element("span", found.errors.join("; "), "said bad"); why.title = why.textContent; holder.append(why); }
}

function hold(image, position, large) { // a box around the picture, which its annotations share
  const holder = element("span", "", "over");
  image.replaceWith(holder);
  holder.append(image);
  waiting.set(position, { holder, large });
  clearTimeout(asking);
  asking = setTimeout(ask, 25);
}

async function ask() {
  const batch = [...waiting].slice(0, 100);
  for (const [position] of batch) waiting.delete(position);
  if (waiting.size) asking = setTimeout(ask, 25);
  const asked = new URLSearchParams(batch.map(([position]) => ["i", position]));
  let found;
  try {
    const answer = await fetch(`${api}/overlays?${asked}`);
    found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    report = "";
  } catch (error) {
    report = error instanceof TypeError ? "The viewer does not answer." : error.message;
    list();
    return;
  }
  fields = found.fields;
  for (const [position, { holder, large }] of batch) {
    const own = found.samples[position];
    if (!own || !holder.isConnected) continue;
    drawn.set(position, { holder, found: own, large });
    draw(position);
  }
  list();
}

function counts() { // of the pictures in sight: field -> class -> how many, and its colour
  const all = new Map(fields.map((field) => [field.name, new Map()]));
  const add = (field, name, colour) => { const own = all.get(field), now = own.get(name) ?? { number: 0, colour }; now.number++; own.set(name, now); };
  let turned = 0;
  for (const [position, { holder, found }] of drawn) {
    if (!holder.isConnected) { drawn.delete(position); continue; }
    turned += found.turned ? 1 : 0;
    for (const shape of found.shapes) add(shape.field, shape.name, shape.colour);
    for (const mask of found.masks) for (const [, name, colour] of mask.classes) add(mask.field, name, colour);
    for (const caption of found.captions) add(caption.field, "", "");
  }
  return { all, turned };
}

function choice(text, key, colour, number, more) {
  const line = element("label", "", key === "*" || !colour ? "whole" : ""), box = element("input", "");
  box.type = "checkbox";
  box.checked = !hidden.has(key);
  box.dataset.key = key;
  line.append(box);
  if (colour) { const swatch = made("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }); swatch.append(made("rect", { width: 10, height: 10, fill: colour })); line.append(swatch); }
  line.append(element("span", text, "name"));
  if (number !== undefined) line.append(element("small", number.toLocaleString("en")));
  if (more) line.title = more;
  return line;
}

function list() {
  const focused = legend.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const { all, turned } = counts(), lines = [choice("all (key o)", "*")];
  for (const field of fields) {
    const own = [...all.get(field.name)].sort((a, b) => b[1].number - a[1].number);
    const placed = field.kind === "boxes" || field.kind === "keypoints";
    const form = field.kind === "boxes" ? field.form : field.form.split(", ")[1];
    const number = own.reduce((sum, [, each]) => sum + each.number, 0);
    lines.push(choice(field.name, nameOf(field.name), "", number, placed ? form : ""));
    if (placed) lines.push(element("small", `${form}${field.guessed ? " (inferred; --overlay changes it)" : ""}`, "form"));
    if (field.kind === "caption" || (own.length === 1 && own[0][0] === field.name)) continue;
    for (const [name, each] of own.slice(0, 60)) lines.push(choice(name, nameOf(field.name, name), each.colour, each.number));
    if (own.length > 60) lines.push(element("small", `${own.length - 60} more classes`, "form"));
  }
  if (turned) lines.push(element("small", `${turned} of these pictures are turned by their Exif orientation: their annotations are drawn as of the turned picture`, "form"));
  if (report) lines.push(element("small", report, "bad"));
  legend.querySelectorAll(":scope > :not(h2)").forEach((old) => old.remove());
  legend.append(...lines);
  if (focused) legend.querySelector(`[data-key='${CSS.escape(focused)}']`)?.focus();
}

function toggle(key) {
  if (hidden.has(key)) hidden.delete(key); else hidden.add(key);
  sessionStorage.setItem(KEPT, JSON.stringify([...hidden]));
  for (const [position, { holder }] of drawn) if (holder.isConnected) draw(position);
  list();
}

legend?.addEventListener("change", (event) => { if (event.target.dataset.key) toggle(event.target.dataset.key); });
document.addEventListener("keydown", (event) => {
  if (event.key !== "o" || event.altKey || event.ctrlKey || event.metaKey || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
  event.preventDefault();
  toggle("*");
});

const start = JSON.parse(document.getElementById("browse")?.dataset.start ?? "null");
if (start) {
  document.addEventListener("tile", (event) => {
    const { tile, found } = event.detail;
    const image = [...tile.querySelectorAll(".box img")].find((each) => each.alt === start.overlays.picture);
    if (image) hold(image, found.position, false);
  });
  let listing = 0; // tiles that left do not count any longer
  document.getElementById("scroll").addEventListener("scroll", () => { clearTimeout(listing); listing = setTimeout(list, 300); }, { passive: true });
}
for (const place of document.querySelectorAll("[data-annotate]")) hold(place.querySelector("img"), Number(place.dataset.annotate), true);
