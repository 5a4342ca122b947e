// Selection: x or a check box selects a sample, with Shift all from the last one on. The menus take the selected samples, or all
// results. The selected samples have the tag `selected`, so a filter lists them, and a file of tags keeps them.
import { counted, element } from "./tile.js";

const page = document.body, box = document.getElementById("choosing");
const name = document.getElementById("tag"), report = document.getElementById("report"), scope = document.getElementById("scope");
const SELECTED = "selected";
const base = `${page.dataset.prefix}/api/${page.dataset.dataset}`;
let anchor = -1; // the row that was chosen last
const rows = new Map(); // row -> tile, of those in sight

const query = () => {
  const found = new URLSearchParams(), here = new URLSearchParams(location.search);
  for (const each of ["q", "where", "sort", "tag"]) if (here.get(each)) found.set(each, here.get(each));
  return found;
};
const scoped = () => (scope.value === "all" ? query() : new URLSearchParams({ tag: SELECTED }));

async function ask(path, parameters, method) {
  try {
    const answer = await fetch(`${base}/${path}?${parameters}`, { method });
    const found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    report.textContent = "";
    return found;
  } catch (error) {
    report.textContent = error instanceof TypeError ? "The viewer does not answer." : error.message;
    return null;
  }
}

function counts(found) {
  if (!found) return;
  const own = found.tags[SELECTED] ?? 0;
  scope.options[0].textContent = `${own.toLocaleString("en")} selected`;
  scope.options[0].disabled = !own;
  scope.value = own ? "selected" : "all";
  box.classList.toggle("some", own > 0);
  document.getElementById("of-selected").hidden = !own;
  document.getElementById("tags").replaceChildren(...Object.entries(found.tags).filter(([tag]) => tag !== SELECTED).map(([tag, number]) => Object.assign(document.createElement("option"), { value: tag, label: `${tag} (${number})` })));
  const lost = Object.entries(found.lost);
  if (lost.length) report.textContent = lost.map(([tag, number]) => `${number} of the tag ${tag} are not in this dataset`).join("; ");
}
function say(text) { const line = document.getElementById("python"); line.textContent = text; line.hidden = false; }

function mark(tile, found) {
  const check = element("input", "", "check");
  check.type = "checkbox";
  check.tabIndex = -1;
  check.checked = found.tags.includes(SELECTED);
  check.setAttribute("aria-label", `select ${found.key}`);
  check.addEventListener("click", (event) => { choose(Number(tile.dataset.row), event.shiftKey, check.checked); });
  tile.classList.toggle("chosen", check.checked);
  tile.tags = found.tags;
  tile.position = found.position;
  (tile.querySelector("[role=cell]") ?? tile).append(check);
  const line = tile.querySelector(".values");
  for (const tag of found.tags) if (tag !== SELECTED) line.prepend(element("span", tag, "chip tag"));
}

async function choose(row, range, wanted) {
  const parameters = query();
  parameters.set("name", SELECTED);
  const tile = rows.get(row);
  if (range && anchor >= 0 && anchor !== row) {
    const first = Math.min(anchor, row);
    parameters.set("first", first);
    parameters.set("count", Math.abs(anchor - row) + 1);
    parameters.set("do", "add");
    for (const [each, other] of rows) if (each >= first && each <= Math.max(anchor, row)) show(other, true);
  } else if (tile) {
    parameters.set("i", tile.position);
    parameters.set("do", wanted ? "add" : "remove");
    show(tile, wanted);
  } else return;
  anchor = row;
  counts(await ask("tags", parameters, "POST"));
}

function show(tile, chosen) {
  const check = tile.querySelector(".check");
  if (!check) return;
  check.checked = chosen;
  tile.classList.toggle("chosen", chosen);
  tile.tags = tile.tags.filter((tag) => tag !== SELECTED);
  if (chosen) tile.tags.push(SELECTED);
}

document.addEventListener("tile", (event) => {
  const { tile, row, found } = event.detail;
  rows.set(row, tile);
  if (rows.size > 2000) for (const [each, other] of rows) if (!other.isConnected) rows.delete(each);
  mark(tile, found);
});
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "x" || event.altKey || event.ctrlKey || event.metaKey) return;
  const link = event.target.closest(".tile a");
  if (!link) return;
  event.preventDefault();
  const tile = link.closest(".tile");
  choose(Number(link.dataset.row), event.shiftKey, !tile.querySelector(".check").checked);
});
async function retag(tag, what, parameters) {
  parameters.set("name", tag);
  parameters.set("do", what);
  const found = await ask("tags", parameters, "POST");
  counts(found);
  if (found) document.dispatchEvent(new Event("retagged"));
  return found;
}
const DO = {
  add: () => retag(name.value.trim(), "add", scoped()),
  remove: () => retag(name.value.trim(), "remove", scoped()),
  clear: () => retag(SELECTED, "remove", new URLSearchParams({ tag: SELECTED })),
  show: () => {
    document.getElementById("filter").elements.tag.value = SELECTED;
    document.dispatchEvent(new Event("where"));
  },
  python: async (parameters) => {
    parameters.set("as", "python");
    const found = await ask("export", parameters);
    if (!found) return;
    navigator.clipboard?.writeText(found.python).catch(() => {});
    say(found.python);
  },
  save: async (parameters) => {
    parameters.set("name", document.getElementById("view-name").value);
    const found = await ask("view", parameters, "POST");
    if (found) say(`Saved, ${counted(found.samples, "sample")}. To make a dataset of them:\n${found.command}`);
  },
  download: (parameters, target) => {
    parameters.set("as", target.dataset.as);
    target.href = `${base}/export?${parameters}`;
  },
};
box.addEventListener("click", (event) => {
  const what = event.target.dataset.do;
  if (!what) return;
  DO[what](scoped(), event.target);
  if (what !== "download") for (const menu of box.querySelectorAll(".menu")) menu.open = false;
});
document.addEventListener("click", (event) => { for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(event.target)) menu.open = false; });
document.addEventListener("count", (event) => { scope.options[1].textContent = `all ${counted(event.detail, "result")}`; });
document.addEventListener("selected", () => { anchor = -1; rows.clear(); document.getElementById("python").hidden = true; });
ask("tags", "").then(counts);
