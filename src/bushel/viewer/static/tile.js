// One tile of the grid: pictures, texts and the key of a sample.
const page = document.body;

export function element(kind, content, style) {
  const made = document.createElement(kind);
  made.textContent = content;
  if (style) made.className = style;
  return made;
}

export function tileContent(found, href, pixels) {
  const link = document.createElement("a");
  link.href = href;
  const values = new Map(found.values);
  const box = document.createElement("span");
  box.className = `box n${Math.min(found.cells.length, 4)}`;
  for (const cell of found.cells) box.append(cellOf(cell, found, values, pixels));
  const named = new Set(found.cells.map((cell) => cell.field));
  const line = element("span", "", "values");
  for (const [name, value] of found.values) {
    if (named.has(name)) continue;
    const chip = element("span", value, "chip");
    chip.title = `${name}: ${value}`;
    line.append(chip);
  }
  if (found.error) { const why = element("span", found.error, "chip bad"); why.title = found.error; line.append(why); }
  link.append(box, element("span", found.key, "key"), line);
  link.title = found.key;
  return link;
}

function cellOf(cell, found, values, pixels) {
  if (!cell.there) return element("span", `no ${cell.field}`, "none");
  if (cell.kind !== "picture") return element("span", values.get(cell.field) ?? "…", "words");
  const image = document.createElement("img");
  const side = Math.ceil((pixels / Math.min(Math.max(found.cells.length, 1), 2)) * (devicePixelRatio || 1));
  image.alt = cell.field;
  image.decoding = "async";
  image.src = `${page.dataset.prefix}/d/${page.dataset.dataset}/thumb?i=${found.position}&f=${encodeURIComponent(cell.field)}&side=${side}&v=${page.dataset.version}`;
  image.addEventListener("error", async () => {
    if (!image.getAttribute("src")) return;
    let why = "this picture cannot be shown";
    try {
      const answer = await fetch(image.src);
      if (!answer.ok) why = (await answer.json()).error;
    } catch { /* the server is gone: the grid says so */ }
    const card = element("span", why, "why");
    card.title = why;
    image.replaceWith(card);
  }, { once: true });
  return image;
}
