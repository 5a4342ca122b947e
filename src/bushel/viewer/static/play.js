// The player: one play head over pictures, channels, sounds and clips.
import { element } from "./tile.js";

const page = document.body, box = document.getElementById("play"), list = document.getElementById("tracks");
const head = document.getElementById("head-of-play"), run = document.getElementById("run"), now = document.getElementById("now");
const report = document.getElementById("report"), speed = document.getElementById("speed");
const base = `${page.dataset.prefix}/d/${page.dataset.dataset}`, api = `${page.dataset.prefix}/api/${page.dataset.dataset}`;
const position = Number(box.dataset.position), SVG = "http://www.w3.org/2000/svg";
const HUES = box.dataset.hues.split(" ");
const WIDE = 1000, HIGH = 120;
const movers = []; // each draws a step
const clocks = []; // sounds and clips; the play head follows the first
let found = null, playing = 0, began = 0, from = 0;

function made(kind, attributes) {
  const node = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const stepOf = (track, step) => Math.min(track.count - 1, Math.floor((step * track.count) / found.steps));
function pictureAddress(track, number) {
  const asked = new URLSearchParams({ f: track.field, side: 512, v: page.dataset.version, i: found.first === null ? position : found.first + number });
  if (found.first === null) asked.set("e", number);
  return `${base}/thumb?${asked}`;
}

function pictures(track, figure) {
  const image = element("img", ""), ahead = new Image();
  image.alt = `${track.field} at the play head`;
  image.width = 320;
  figure.append(image);
  image.addEventListener("error", () => { image.alt = `${track.field}: this picture cannot be shown`; });
  let shown = -1;
  movers.push((step) => {
    const number = stepOf(track, step);
    if (number === shown) return;
    shown = number;
    image.src = pictureAddress(track, number);
    if (number + 1 < track.count) ahead.src = pictureAddress(track, number + 1);
  });
}

function channels(track, figure) {
  const rows = track.values, known = rows.flat().filter((each) => each !== null);
  const low = Math.min(...known), high = Math.max(...known), size = high - low || 1;
  const drawing = made("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": `${track.field}: ${rows[0].length} channels from ${low} to ${high}` });
  rows[0].forEach((_, channel) => {
    let path = "", pen = "M";
    rows.forEach((row, at) => {
      if (row[channel] === null) { pen = "M"; return; }
      path += `${pen}${((at + .5) * WIDE / rows.length).toFixed(1)} ${(HIGH - 4 - (HIGH - 8) * (row[channel] - low) / size).toFixed(1)}`;
      pen = "L";
    });
    drawing.append(made("path", { d: path, fill: "none", stroke: HUES[channel % HUES.length], "stroke-width": 1.5, "vector-effect": "non-scaling-stroke" }));
  });
  const line = made("line", { y1: 0, y2: HIGH, class: "cursor", "vector-effect": "non-scaling-stroke" });
  drawing.append(line);
  drawing.addEventListener("pointerdown", (event) => { const { left, width } = drawing.getBoundingClientRect(); go(Math.floor((event.clientX - left) / width * found.steps)); });
  const text = element("small", "", "readout");
  figure.append(drawing, text);
  movers.push((step) => {
    const number = Math.min(rows.length - 1, Math.floor((step * rows.length) / found.steps)), x = (number + .5) * WIDE / rows.length;
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    text.replaceChildren(...rows[number].map((value, channel) => { const each = element("span", value === null ? "none" : value.toPrecision(4)); each.style.borderColor = HUES[channel % HUES.length]; return each; }));
    if (track.hidden) text.append(` and ${track.hidden} more channels`);
  });
}

function sounding(track, figure) { // a clip or a sound has its own clock, which the play head follows
  const own = element(track.kind, "");
  own.controls = true;
  own.preload = "metadata";
  own.src = `${base}/bytes?${new URLSearchParams({ i: position, f: track.field })}`;
  figure.append(own);
  clocks.push(own);
  if (clocks[0] === own) {
    own.addEventListener("loadedmetadata", () => { if (Number.isFinite(own.duration) && own.duration > 0) settle(own.duration); });
    own.addEventListener("timeupdate", () => { if (!playing) go(Math.floor(own.currentTime * found.rate), true); });
  }
  movers.push((step, given) => {
    if (given && clocks[0] === own) return;
    const wanted = Math.min(step / found.rate, own.duration || 0);
    if (Math.abs(own.currentTime - wanted) > (playing ? .3 : .05)) own.currentTime = wanted;
  });
}

function settle(seconds) { // without pictures, there is a step for each tenth of a second
  const counts = found.tracks.filter((track) => track.kind === "pictures");
  if (counts.length) found.rate = found.steps / seconds;
  else found.steps = Math.max(1, Math.round(seconds * found.rate));
  head.max = found.steps - 1;
  go(Number(head.value));
}

function go(step, given) {
  step = Math.min(Math.max(step, 0), found.steps - 1);
  head.value = step;
  const text = `step ${step.toLocaleString("en")} of ${found.steps.toLocaleString("en")}, ${(step / found.rate).toFixed(2)} s`;
  now.textContent = text;
  head.setAttribute("aria-valuetext", text);
  for (const move of movers) move(step, given);
}

function frame(time) {
  if (!playing) return;
  const step = from + Math.floor(((time - began) / 1000) * found.rate * Number(speed.value));
  if (step >= found.steps) { go(found.steps - 1); stop(); return; }
  if (step !== Number(head.value)) go(step, clocks.length > 0 && !clocks[0].paused);
  playing = requestAnimationFrame(frame);
}

function start() {
  from = Number(head.value) >= found.steps - 1 ? 0 : Number(head.value);
  go(from);
  began = performance.now();
  for (const clock of clocks) {
    clock.playbackRate = Number(speed.value);
    clock.play().catch(() => { report.textContent = "This browser cannot play a sound or a clip of this sample."; });
  }
  run.textContent = "Stop";
  playing = requestAnimationFrame(frame);
}
function stop() { cancelAnimationFrame(playing); playing = 0; for (const clock of clocks) clock.pause(); run.textContent = "Play"; }

run.addEventListener("click", () => (playing ? stop() : start()));
head.addEventListener("input", () => { if (playing) stop(); go(Number(head.value)); });
speed.addEventListener("change", () => { if (playing) { stop(); start(); } });
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || !found || event.target.closest("select, video, audio")) return;
  if (event.key === " " && event.target !== run) { event.preventDefault(); run.click(); }
  if (event.key === "Escape") document.getElementById("back").click();
  if (event.target === head) return;
  if (event.key === "ArrowRight" || event.key === "ArrowLeft") { event.preventDefault(); stop(); go(Number(head.value) + (event.key === "ArrowRight" ? 1 : -1)); }
});

const KINDS = { pictures, channels, audio: sounding, video: sounding };
async function load() {
  const answer = await fetch(`${api}/tracks/${position}`);
  found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  document.getElementById("title").textContent = found.title;
  for (const track of found.tracks) {
    const figure = element("figure", "", track.kind), caption = element("figcaption", track.field);
    if (track.count) caption.append(element("small", ` ${track.count.toLocaleString("en")}`));
    figure.append(caption);
    KINDS[track.kind](track, figure);
    list.append(figure);
  }
  report.textContent = found.errors.length ? found.errors.join("; ") : found.tracks.length ? "" : "Nothing here has several steps.";
  report.classList.toggle("wrong", found.errors.length > 0);
  if (!found.tracks.length) return;
  head.max = found.steps - 1;
  head.disabled = run.disabled = false;
  go(found.start);
}
load().catch((error) => { report.textContent = error instanceof TypeError ? "The viewer does not answer." : error.message; report.className = "wrong"; });
