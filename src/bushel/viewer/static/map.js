// The map of vectors: moves and zooms, a lasso that chooses, and tags for what it holds.
import { element } from "./tile.js";
import { nearest, plot, scales } from "./plot.js";

const page = document.body, box = document.getElementById("map"), canvas = document.getElementById("points");
const report = document.getElementById("report"), chosen = document.getElementById("chosen"), hint = document.getElementById("hint");
const base = `${page.dataset.prefix}/d/${page.dataset.dataset}`, api = `${page.dataset.prefix}/api/${page.dataset.dataset}`;
const form = box.querySelector("form"), tag = document.getElementById("tag"), lasso = document.getElementById("lasso");
const view = { x: 0, y: 0, zoom: 1 };
let points = null, drawing = null, facts = null, asked = 0, polygon = "", stroke = null, moving = null, share = 1, rest = 0;

function parameters(more = {}) {
  const data = new FormData(form), found = new URLSearchParams({ field: box.dataset.field });
  for (const name of ["where", "tag"]) if (data.get(name)) found.set(name, data.get(name));
  for (const [name, value] of Object.entries(more)) found.set(name, value);
  return found;
}

async function get(path, more, options) {
  const answer = await fetch(`${api}/${path}?${parameters(more)}`, options);
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer;
}

async function load() {
  do {
    facts = await (await get("map")).json();
    report.textContent = `Reading vectors: ${facts.done.toLocaleString("en")} of ${facts.total.toLocaleString("en")} …`;
  } while (facts.done < facts.total);
  points = new Float32Array(await (await get("points")).arrayBuffer());
  const { legend, numbers } = await (await get("colours", { colour: new FormData(form).get("colour") ?? "" })).json();
  const palette = new Uint8Array(256 * 3), bytes = atob(numbers), colours = new Uint8Array(bytes.length * 3);
  for (const [number, , colour] of legend) for (let part = 0; part < 3; part++) palette[number * 3 + part] = parseInt(colour.slice(1 + 2 * part, 3 + 2 * part), 16);
  for (let at = 0; at < bytes.length; at++) for (let part = 0; part < 3; part++) colours[at * 3 + part] = palette[bytes.charCodeAt(at) * 3 + part];
  for (let at = 0; at < points.length; at++) if (Number.isNaN(points[at])) points[at] = 1e9; // far away: not drawn
  const made = plot(canvas, points, colours, new URLSearchParams(location.search).has("plain"));
  drawing = made.draw;
  canvas.dataset.drawn = made.kind;
  showLegend(legend);
  say();
  fit();
}

function say() {
  const parts = [`${(facts.total - facts.missing).toLocaleString("en")} points`];
  if (facts.total < facts.samples) parts.push(`of each ${facts.step.toLocaleString("en")}th of ${facts.samples.toLocaleString("en")} samples`);
  if (facts.missing) parts.push(`${facts.missing.toLocaleString("en")} ${facts.missing === 1 ? "sample has" : "samples have"} no such vector`);
  parts.push(facts.explained === null ? "places as they are in the file" : `the two main components of ${facts.numbers} numbers show ${(100 * facts.explained).toFixed(1)} % of their variance`);
  report.textContent = `${parts.join("; ")}.`;
}

function showLegend(legend) {
  const list = document.getElementById("legend");
  for (const [, text, colour, number] of legend) {
    const line = element("li", ""), mark = document.createElementNS("http://www.w3.org/2000/svg", "svg"), fill = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    mark.setAttribute("viewBox", "0 0 10 10");
    mark.setAttribute("aria-hidden", "true");
    for (const [name, value] of [["width", 10], ["height", 10], ["fill", colour]]) fill.setAttribute(name, value);
    mark.append(fill);
    line.append(mark, ` ${text} `, element("small", number.toLocaleString("en")));
    list.append(line);
  }
}

function fit() { // the canvas has the pixels of the screen
  const ratio = devicePixelRatio || 1, { width, height } = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  later();
}

// While the map moves, as many points are drawn as there can be 60 frames a second with; all of them when it rests.
function later() {
  if (asked || !drawing) return;
  asked = requestAnimationFrame((now) => {
    asked = 0;
    paint(share);
    requestAnimationFrame((next) => { share = next - now > 20 ? Math.max(.05, share * .7) : Math.min(1, share * 1.01); });
    clearTimeout(rest);
    rest = setTimeout(() => { if (share < 1) paint(1); }, 150);
  });
}

function paint(part) {
  const size = (devicePixelRatio || 1) * Math.min(9, Math.max(2.5, 260 / Math.sqrt(points.length)) * Math.sqrt(view.zoom));
  drawing(view, size, part);
  outline();
}

const place = (event) => { const { left, top } = canvas.getBoundingClientRect(); return [event.clientX - left, event.clientY - top]; };
function toMap([x, y]) {
  const [across, up] = scales(canvas, view), { clientWidth: width, clientHeight: height } = canvas;
  return [view.x + (2 * x / width - 1) / across, view.y - (2 * y / height - 1) / up];
}
function toScreen([x, y]) {
  const [across, up] = scales(canvas, view);
  return [((x - view.x) * across + 1) * canvas.clientWidth / 2, (1 - (y - view.y) * up) * canvas.clientHeight / 2];
}

function outline() { // the lasso stays on its points when the map moves
  const corners = stroke ?? (polygon ? polygon.split(",").map(Number).reduce((all, each, at) => { if (at % 2) all.at(-1).push(each); else all.push([each]); return all; }, []) : []);
  lasso.setAttribute("points", corners.map((each) => toScreen(each).map((part) => part.toFixed(1)).join(",")).join(" "));
}

function zoom(factor, at) {
  const before = toMap(at);
  view.zoom = Math.min(400, Math.max(.5, view.zoom * factor));
  const after = toMap(at);
  view.x += before[0] - after[0];
  view.y += before[1] - after[1];
  later();
}

async function choose(corners) {
  const step = Math.max(1, Math.ceil(corners.length / 300)); // of a long line, every k-th corner
  polygon = corners.filter((_, number) => number % step === 0).flat().map((each) => each.toFixed(5)).join(",");
  outline();
  await ask({});
}

async function ask(more) {
  try {
    const found = await (await get("lasso", { polygon, ...more }, { method: "POST" })).json();
    const now = found.tags[tag.value.trim() || "chosen"] ?? 0;
    chosen.textContent = `${found.count.toLocaleString("en")} ${found.count === 1 ? "sample" : "samples"} selected; ${now.toLocaleString("en")} have the tag.`;
    for (const each of box.querySelectorAll("[data-do=add], [data-do=remove]")) each.disabled = !found.count;
    document.getElementById("some").replaceChildren(...found.some.map(([position, key]) => tileOf(position, key)));
  } catch (error) { fail(error); }
}

function tileOf(position, key) {
  const line = element("li", ""), link = element("a", "");
  link.href = `${base}/s/${position}`;
  link.title = key;
  if (box.dataset.picture) link.append(pictureOf(position, key));
  link.append(element("span", key, "key"));
  line.append(link);
  return line;
}

function pictureOf(position, key) {
  const image = element("img", "", "card");
  image.alt = key;
  image.src = `${base}/thumb?i=${position}&f=${encodeURIComponent(box.dataset.picture)}&side=160&v=${page.dataset.version}`;
  image.addEventListener("error", () => image.remove(), { once: true });
  return image;
}

function fail(error) { report.textContent = error instanceof TypeError ? "The viewer does not answer." : error.message; report.className = "wrong"; }

canvas.addEventListener("pointerdown", (event) => {
  if (!points) return;
  canvas.setPointerCapture(event.pointerId);
  hint.hidden = true;
  if (event.shiftKey || event.button === 1) moving = place(event);
  else stroke = [toMap(place(event))];
});
canvas.addEventListener("pointermove", (event) => {
  if (!points) return;
  const at = place(event);
  if (moving) {
    const [from, to] = [toMap(moving), toMap(at)];
    view.x += from[0] - to[0];
    view.y += from[1] - to[1];
    moving = at;
    later();
  } else if (stroke) { stroke.push(toMap(at)); outline(); }
  else show(at);
});
canvas.addEventListener("pointerup", (event) => {
  const done = stroke;
  stroke = moving = null;
  if (done?.length > 3) choose(done);
  else if (done) { const found = near(place(event)); if (found >= 0) location.href = `${base}/s/${found * facts.step}`; }
});
canvas.addEventListener("pointercancel", () => { stroke = moving = null; outline(); });
canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(-event.deltaY / 400), place(event)); }, { passive: false });
canvas.addEventListener("keydown", (event) => {
  const middle = [canvas.clientWidth / 2, canvas.clientHeight / 2], step = .2 / view.zoom;
  const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
  if (event.key in moves) { view.x += moves[event.key][0]; view.y += moves[event.key][1]; later(); }
  else if (event.key === "+" || event.key === "=") zoom(1.4, middle);
  else if (event.key === "-") zoom(1 / 1.4, middle);
  else if (event.key === "0") { Object.assign(view, { x: 0, y: 0, zoom: 1 }); later(); }
  else return;
  event.preventDefault();
});

function near([x, y]) { const ratio = canvas.width / canvas.clientWidth; return nearest(canvas, points, view, x * ratio, y * ratio, 12 * ratio); }
let shownPoint = -1;
function show(at) { // the sample under the pointer
  const found = near(at);
  if (found === shownPoint) return;
  shownPoint = found;
  hint.hidden = found < 0;
  if (found < 0) return;
  const position = found * facts.step, [x, y] = toScreen([points[2 * found], points[2 * found + 1]]);
  hint.style.left = `${Math.min(x + 12, canvas.clientWidth - 120)}px`;
  hint.style.top = `${Math.min(y + 12, canvas.clientHeight - 120)}px`;
  hint.replaceChildren(...(box.dataset.picture ? [pictureOf(position, `sample ${position}`)] : []), element("span", `position ${position.toLocaleString("en")}`, "key"));
}

box.addEventListener("click", (event) => {
  const what = event.target.dataset?.do;
  if (what === "view" && points) choose([[0, 0], [canvas.clientWidth, 0], [canvas.clientWidth, canvas.clientHeight], [0, canvas.clientHeight]].map(toMap));
  if (what === "add" || what === "remove") ask({ name: tag.value.trim() || "chosen", do: what });
});
tag.addEventListener("input", () => { document.getElementById("list").href = `${base}?${new URLSearchParams({ tag: tag.value.trim() || "chosen" })}`; });
new ResizeObserver(fit).observe(canvas);
load().catch(fail);
