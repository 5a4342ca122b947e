// One tile of the grid: pictures, texts and the key of a sample.
const page = document.body;
const PLAIN = /^(-?[\d.]+(e[+-]?\d+)?|true|false|nan|-?inf)$/;

export function element(kind, content, style) {
  const made = document.createElement(kind);
  made.textContent = content;
  if (style) made.className = style;
  return made;
}

// A number with its noun: "1 sample", "20,000 samples".
export function counted(number, noun) { return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`; }

export function tileContent(found, href, pixels) {
  const link = document.createElement("a");
  link.href = href;
  const values = new Map(found.values);
  const box = document.createElement("span");
  box.className = `box n${Math.min(found.cells.length, 4)}`;
  for (const cell of found.cells) box.append(cellOf(cell, found, values, pixels));
  const named = new Set(found.cells.map((cell) => cell.field));
  const line = element("span", "", "values");
  const [label, predicted] = found.compared ?? [];
  for (const [name, value] of found.values) {
    if (named.has(name)) continue;
    const chip = element("span", value, value.length > 24 ? "chip long" : "chip");
    if (PLAIN.test(value)) chip.prepend(element("small", `${name} `)); // a number alone says nothing
    if (name === predicted && values.has(label) && values.get(label) !== value) chip.classList.add("bad");
    chip.title = `${name}: ${value}`;
    line.append(chip);
  }
  for (const cell of found.cells) for (const [part, unit] of [["duration", "s"], ["fps", "frames/s"]]) {
    const value = cell.plays && found.columns?.[`${cell.field}.${part}`];
    if (value) line.append(element("span", `${Number(value).toPrecision(3)} ${unit}`, "chip"));
  }
  if (found.error) { const why = element("span", found.error, "chip bad"); why.title = found.error; line.prepend(why); }
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
  if (cell.plays === "audio") image.className = "plot";
  if (cell.plays) playOnHover(image, cell, found);
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

// A clip plays without sound, and a sound plays, while the pointer is over its tile.
function playOnHover(image, cell, found) {
  let player = null;
  image.addEventListener("pointerenter", () => {
    player = document.createElement(cell.plays);
    player.muted = cell.plays === "video";
    player.loop = player.playsInline = true;
    player.className = "player";
    player.src = `${page.dataset.prefix}/d/${page.dataset.dataset}/bytes?i=${found.position}&f=${encodeURIComponent(cell.field)}`;
    const length = element("small", "", "length");
    player.addEventListener("loadedmetadata", () => { if (Number.isFinite(player.duration)) length.textContent = `${player.duration.toFixed(1)} s`; });
    image.closest(".tile, .box").append(player, length);
    player.play().catch(() => {}); // browsers play sounds only after a first click
    image.closest("a").addEventListener("pointerleave", () => { player.pause(); player.removeAttribute("src"); player.remove(); length.remove(); }, { once: true });
  });
}
