// Choosing samples: x or a check box gives the sample a tag, with Shift all from the last one on; exports of the listed samples.
import { element } from "./tile.js";

const page = document.body, box = document.getElementById("choosing");
const name = document.getElementById("tag"), tagged = document.getElementById("tagged"), report = document.getElementById("report");
const base = `${page.dataset.prefix}/api/${page.dataset.dataset}`;
let anchor = -1; // the row that was chosen last
const rows = new Map(); // row -> tile, of those in sight

const query = () => {
  const found = new URLSearchParams(), here = new URLSearchParams(location.search);
  for (const each of ["q", "where", "sort", "tag"]) if (here.get(each)) found.set(each, here.get(each));
  return found;
};
const active = () => name.value.trim() || "chosen";
const scope = document.getElementById("scope");
const scoped = () => (scope.value === "all" ? query() : new URLSearchParams({ tag: active() }));

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
  const own = found.tags[active()] ?? 0;
  tagged.textContent = own ? `${own.toLocaleString("en")} selected` : "";
  scope.options[0].textContent = `${own.toLocaleString("en")} selected`;
  scope.options[0].disabled = !own;
  if ((scope.value === "all") !== !own) scope.value = own ? "selected" : "all";
  document.getElementById("tags").replaceChildren(...Object.entries(found.tags).map(([tag, number]) => Object.assign(document.createElement("option"), { value: tag, label: `${tag} (${number})` })));
  const lost = Object.entries(found.lost);
  if (lost.length) report.textContent = lost.map(([tag, number]) => `${number} of the tag ${tag} are not in this dataset`).join("; ");
}

function mark(tile, found) {
  const check = element("input", "", "check");
  check.type = "checkbox";
  check.tabIndex = -1;
  check.checked = found.tags.includes(active());
  check.setAttribute("aria-label", `select ${found.key}`);
  check.addEventListener("click", (event) => { choose(Number(tile.dataset.row), event.shiftKey, check.checked); });
  tile.classList.toggle("chosen", check.checked);
  tile.tags = found.tags;
  tile.position = found.position;
  (tile.querySelector("[role=cell]") ?? tile).append(check);
  const line = tile.querySelector(".values");
  for (const tag of found.tags) if (tag !== active()) line.prepend(element("span", tag, "chip tag"));
}

async function choose(row, range, wanted) {
  const parameters = query();
  parameters.set("name", active());
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
  box.open = true;
  counts(await ask("tags", parameters, "POST"));
}

function show(tile, chosen) {
  const check = tile.querySelector(".check");
  if (!check) return;
  check.checked = chosen;
  tile.classList.toggle("chosen", chosen);
  tile.tags = tile.tags.filter((tag) => tag !== active());
  if (chosen) tile.tags.push(active());
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
name.addEventListener("change", () => {
  for (const tile of rows.values()) if (tile.isConnected) { const check = tile.querySelector(".check"); if (check) { check.checked = tile.tags.includes(active()); tile.classList.toggle("chosen", check.checked); } }
  ask("tags", "").then(counts);
});
box.addEventListener("click", async (event) => {
  const what = event.target.dataset.do;
  if (what === "add" || what === "remove") {
    const parameters = query();
    parameters.set("name", active());
    parameters.set("do", what);
    counts(await ask("tags", parameters, "POST"));
    document.dispatchEvent(new Event("retagged"));
  } else if (what === "show") {
    document.getElementById("filter").elements.tag.value = active();
    document.dispatchEvent(new Event("where"));
  } else if (what === "python") {
    const parameters = scoped();
    parameters.set("as", "python");
    const found = await ask("export", parameters);
    if (found) { const line = document.getElementById("python"); line.textContent = found.python; line.hidden = false; }
  } else if (what === "save") {
    const parameters = scoped();
    parameters.set("name", document.getElementById("view-name").value);
    const found = await ask("view", parameters, "POST");
    if (found) { const line = document.getElementById("python"); line.textContent = `saved, ${found.samples.toLocaleString("en")} samples. A dataset of them:\n${found.command}`; line.hidden = false; }
  } else if (what === "download") {
    const parameters = scoped();
    parameters.set("as", event.target.dataset.as);
    event.target.href = `${base}/export?${parameters}`;
  }
});
document.addEventListener("selected", () => { anchor = -1; rows.clear(); document.getElementById("python").hidden = true; });
ask("tags", "").then((found) => { counts(found); if (found && Object.keys(found.tags).length) box.open = true; });
