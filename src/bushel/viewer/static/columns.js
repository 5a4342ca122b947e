// Histograms of columns. A click on a class or an interval adds its condition to the filter, a second one removes it.
const page = document.body, where = document.getElementById("where");
const url = `${page.dataset.prefix}/api/${page.dataset.dataset}/histogram`;
const vector = (kind, attributes) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

// The conditions that were clicked are joined by "and"; what else is in the field is kept.
const clicked = new Map(); // column -> condition
function toggle(column, condition) {
  let text = where.value.trim();
  const before = clicked.get(column);
  const parts = before ? [` and (${before})`, `${before} and `, before] : [];
  let removed = false;
  for (const part of parts) if (!removed && text.includes(part)) { text = text.replace(part, "").trim(); removed = true; }
  clicked.delete(column);
  if (before !== condition || !removed) {
    clicked.set(column, condition);
    text = text ? `${/\bor\b/.test(text) ? `(${text})` : text} and (${condition})` : condition;
  }
  where.value = text;
  document.dispatchEvent(new Event("where"));
}

function button(column, bin, words) {
  const made = document.createElement("button");
  made.type = "button";
  const number = bin.count === bin.all ? bin.all.toLocaleString("en") : `${bin.count.toLocaleString("en")} of ${bin.all.toLocaleString("en")}`;
  made.title = `${bin.label}: ${number} samples`;
  if (!words) made.setAttribute("aria-label", `${column} ${made.title}`);
  made.setAttribute("aria-pressed", where.value.includes(bin.condition));
  made.addEventListener("click", () => toggle(column, bin.condition));
  return made;
}

function span(text, style) {
  const made = document.createElement("span");
  made.textContent = text;
  if (style) made.className = style;
  return made;
}

function draw(box, found) {
  const most = Math.max(1, ...found.bins.map((bin) => bin.all));
  const bins = document.createElement("div");
  bins.className = found.kind === "numbers" ? "bars" : "classes";
  for (const bin of found.bins) {
    if (where.value.includes(bin.condition)) clicked.set(found.column, bin.condition);
    const made = button(found.column, bin, found.kind === "classes");
    if (found.kind === "numbers") {
      const high = (number) => (number ? Math.max(2, (100 * number) / most) : 0);
      const picture = vector("svg", { viewBox: "0 0 10 100", preserveAspectRatio: "none", "aria-hidden": "true" });
      for (const [style, number] of [["whole", bin.all], ["part", bin.count]])
        picture.append(vector("rect", { class: style, width: 10, height: high(number), y: 100 - high(number) }));
      made.append(picture);
    } else {
      const picture = vector("svg", { class: "meter", viewBox: "0 0 100 3", preserveAspectRatio: "none", "aria-hidden": "true" });
      for (const [style, number] of [["whole", bin.all], ["part", bin.count]])
        picture.append(vector("rect", { class: style, height: 3, width: (100 * number) / most }));
      made.append(span(bin.label, "label"), span(bin.count.toLocaleString("en"), "number"), picture);
    }
    bins.append(made);
  }
  box.replaceChildren(bins);
  if (found.kind === "numbers" && found.bins.length > 1) {
    const ends = span("", "ends");
    ends.append(span(found.bins[0].label.split(" to ")[0]), span(found.bins.at(-1).label.split(" to ")[1]));
    box.append(ends);
  }
  const notes = [];
  if (found.missing) notes.push(`${found.missing.toLocaleString("en")} without a value`);
  if (found.more) notes.push(`${found.more.toLocaleString("en")} ${found.bins.length ? "more" : "different"} values`);
  else if (!found.bins.length) notes.push("no values");
  if (notes.length) box.append(span(notes.join("; ")));
}

let asked = 0;
async function load(details) {
  const made = asked, box = details.querySelector(".bins");
  details.dataset.loaded = location.search;
  const query = new URLSearchParams(location.search);
  query.delete("field");
  query.delete("sort");
  query.set("column", details.dataset.column);
  const answer = await fetch(`${url}?${query}`);
  const found = await answer.json();
  if (made !== asked) return;
  if (answer.ok) draw(box, found);
  else box.replaceChildren(span(found.error, "bad"));
}

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
reload();
