// The page of a sample: keys go to the neighbours and back to the grid; bytes are shown as hex on request.
import "./neighbours.js";

for (const button of document.querySelectorAll(".hexer")) {
  button.addEventListener("click", async () => {
    const box = button.closest("details").querySelector("pre.hex[hidden], pre.hex.loaded");
    const start = Number(button.dataset.start || 0);
    const answer = await fetch(`${button.dataset.url}&start=${start}`);
    const found = await answer.json();
    box.hidden = false;
    box.classList.add("loaded");
    if (!answer.ok) { box.textContent = found.error; return; }
    const lines = found.lines.map(([at, digits, text]) => `${at}  ${digits.padEnd(48)}  ${text}`);
    box.append(lines.join("\n") + "\n");
    const next = found.start + 16 * found.lines.length;
    button.dataset.start = next;
    button.hidden = next >= found.size || !found.lines.length;
    button.textContent = "Show more";
  });
}
