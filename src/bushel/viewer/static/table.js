// The table: the same rows as the grid, one line each, with a header that sorts and shows histograms.
import { element } from "./tile.js";

const page = document.body;
const prefix = page.dataset.prefix, number = page.dataset.dataset;
export const LINE = 44, HEAD = 58; // heights in pixels
const WIDE = { check: 34, picture: 60, key: 220, value: 150 };

export function tableWidth(names, picture) { return WIDE.check + (picture ? WIDE.picture : 0) + WIDE.key + names.length * WIDE.value; }

function cell(made, width, role = "cell") {
  const box = element("span", "", "cell");
  box.setAttribute("role", role);
  box.style.width = `${width}px`;
  if (made) box.append(made);
  return box;
}

export function lineContent(found, link, names, picture) {
  link.replaceChildren(element("span", found.key, "key"));
  const values = new Map([...found.values, ...Object.entries(found.columns ?? {})]);
  const cells = [cell(null, WIDE.check)];
  if (picture) {
    let image = null;
    if (found.cells[0]?.there) {
      image = document.createElement("img");
      image.alt = picture;
      image.decoding = "async";
      image.src = `${prefix}/d/${number}/thumb?i=${found.position}&f=${encodeURIComponent(picture)}&side=96&v=${page.dataset.version}`;
      image.addEventListener("error", () => { if (image.getAttribute("src")) image.replaceWith(element("span", "?", "bad")); }, { once: true });
    }
    cells.push(cell(image, WIDE.picture));
  }
  cells.push(cell(link, WIDE.key));
  for (const name of names) {
    const text = values.get(name) ?? "", made = element("span", text);
    made.title = `${name}: ${text}`;
    cells.push(cell(made, WIDE.value));
  }
  if (found.error) { const why = element("span", found.error, "bad"); why.title = found.error; cells.at(-1).append(why); }
  return cells;
}

export function copyLine(tile) { // as tab-separated values, to paste into a sheet
  const text = [...tile.querySelectorAll("[role=cell]")].slice(1).map((each) => each.textContent.replaceAll(/\s+/g, " ")).join("\t").trim();
  navigator.clipboard?.writeText(text);
  return text;
}

// The header. A click on a name sorts by it, a second one the other way round, a third one no more.
export function header(box, names, sortable, picture, sort, sortBy) {
  box.replaceChildren(cell(null, WIDE.check, "columnheader"));
  if (picture) { const made = element("span", picture); made.title = picture; box.append(cell(made, WIDE.picture, "columnheader")); }
  box.append(cell(element("span", "key"), WIDE.key, "columnheader"));
  for (const name of names) {
    const made = cell(null, WIDE.value, "columnheader");
    if (sortable.includes(name)) {
      const way = sort === name ? "ascending" : sort === `-${name}` ? "descending" : "none";
      made.setAttribute("aria-sort", way);
      const button = element("button", `${name}${{ ascending: " ↑", descending: " ↓", none: "" }[way]}`, "quiet");
      button.type = "button";
      button.title = `sort by ${name}`;
      button.addEventListener("click", () => sortBy({ none: name, ascending: `-${name}`, descending: "" }[way]));
      const small = document.createElement("span");
      small.className = "small";
      made.append(button, small);
      sketch(small, name);
    } else made.append(element("span", name));
    box.append(made);
  }
}

let asked = 0;
export function newHeader() { asked++; }
async function sketch(box, name) { // a small histogram
  const made = asked, query = new URLSearchParams(), here = new URLSearchParams(location.search);
  for (const each of ["q", "where", "tag"]) if (here.get(each)) query.set(each, here.get(each));
  query.set("column", name);
  let found;
  try {
    const answer = await fetch(`${prefix}/api/${number}/histogram?${query}`);
    if (!answer.ok) return;
    found = await answer.json();
  } catch { return; }
  if (made !== asked) return;
  if (!found.bins.length) { box.remove(); return; }
  const bins = found.bins.slice(0, 28), most = Math.max(1, ...bins.map((bin) => bin.all));
  const space = "http://www.w3.org/2000/svg", picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", `0 0 ${bins.length} 20`);
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  bins.forEach((bin, place) => {
    for (const [style, value] of [["whole", bin.all], ["part", bin.count]]) {
      const bar = document.createElementNS(space, "rect"), high = value ? Math.max(1, (20 * value) / most) : 0;
      for (const [key, each] of Object.entries({ class: style, x: place, width: 0.9, y: 20 - high, height: high })) bar.setAttribute(key, each);
      picture.append(bar);
    }
  });
  box.replaceChildren(picture);
}
