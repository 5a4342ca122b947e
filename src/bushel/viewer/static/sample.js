// The page of a sample: keys go to the neighbours and back to the grid; bytes are shown as hex on request.
import "./neighbours.js";

const PART = 4096; // bytes of a request

function hexLines(bytes, start) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const line = [...bytes.slice(at, at + 16)], digits = line.map((byte) => byte.toString(16).padStart(2, "0"));
    const text = line.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    const halves = [digits.slice(0, 8).join(" "), digits.slice(8).join(" ")].join("  ");
    lines.push(`${(start + at).toString(16).padStart(8, "0")}  ${halves.padEnd(48)}  ${text}\n`);
  }
  return lines.join("");
}

for (const button of document.querySelectorAll(".hexer")) {
  const box = button.closest("details").querySelector("pre.hex[hidden]");
  let start = 0;
  button.addEventListener("click", async () => {
    box.hidden = false;
    const answer = await fetch(button.dataset.url, { headers: { range: `bytes=${start}-${start + PART - 1}` } });
    if (!answer.ok) { button.hidden = true; if (answer.status !== 416) box.textContent = (await answer.json()).error; return; }
    const bytes = new Uint8Array(await answer.arrayBuffer());
    box.append(hexLines(bytes, start));
    box.classList.add("loaded");
    start += bytes.length;
    button.hidden = start >= Number(answer.headers.get("content-range")?.split("/")[1] ?? 0);
    button.textContent = "Show more";
  });
}
