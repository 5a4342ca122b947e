// The verification: started and stopped here, followed by server-sent events.
const page = document.body, box = document.getElementById("verify");
const run = document.getElementById("run"), stop = document.getElementById("stop");
const report = document.getElementById("report"), bar = document.getElementById("done"), list = document.getElementById("problems");
const url = `${page.dataset.prefix}/api/${page.dataset.dataset}/verify`;
let before = "";

function size(bytes) {
  let unit = 0;
  while (bytes >= 1000 && unit < 5) { bytes /= 1000; unit++; }
  return `${unit ? bytes.toPrecision(3) : bytes} ${["B", "kB", "MB", "GB", "TB", "PB"][unit]}`;
}

function show(now) {
  const running = now.state === "running";
  run.disabled = running;
  stop.hidden = !running;
  bar.hidden = !running;
  if (running) {
    bar.max = now.total || 1;
    bar.value = now.done;
    report.textContent = `${size(now.done)} of ${size(now.total)}${now.errors ? `, ${now.errors} problems so far` : ""}`;
  } else if (now.state === "failed") report.textContent = `The verification failed: ${now.error}`;
  else if (now.state === "stopped") report.textContent = "Stopped. The bytes that were not read are unchecked.";
  else if (now.state === "done") {
    report.textContent = `${now.verdict}; ${size(now.checked)} compared with checksums`;
    report.className = now.ok ? "good" : "bad";
    list.replaceChildren(...now.problems.map(item));
    if (now.more) list.append(Object.assign(document.createElement("li"), { textContent: `${now.more} more problems are not listed` }));
    if (before === "running") recolour();
  }
  before = now.state;
}

function item(problem) {
  const line = document.createElement("li"), kind = document.createElement("b");
  kind.textContent = problem.warning ? `warning: ${problem.kind}` : problem.kind;
  line.append(kind, " ");
  if (problem.position !== null) {
    const link = document.createElement("a");
    link.href = `${page.dataset.prefix}/d/${page.dataset.dataset}/s/${problem.position}`;
    link.textContent = problem.key;
    line.append(link, problem.field ? ` ${problem.field}: ` : ": ");
  } else if (problem.key) line.append(`${problem.key}: `);
  line.append(problem.message);
  if (problem.file) {
    const file = document.createElement("small");
    file.textContent = ` ${problem.file}${problem.offset === null ? "" : `@${problem.offset}`}`;
    line.append(file);
  }
  return line;
}

async function recolour() { // update the map and the list
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of [".map", "tbody"]) document.querySelector(part).replaceWith(fresh.querySelector(part));
}

function follow() {
  const events = new EventSource(url);
  events.onmessage = (event) => {
    const now = JSON.parse(event.data);
    show(now);
    if (now.state !== "running") events.close();
  };
  events.onerror = () => { events.close(); report.textContent = "The viewer does not answer any more."; run.disabled = false; };
}

run.addEventListener("click", async () => {
  report.className = "";
  list.replaceChildren();
  show(await (await fetch(url, { method: "POST" })).json());
  before = "running";
  follow();
});
stop.addEventListener("click", () => fetch(`${url}?stop=1`, { method: "POST" }));
const start = JSON.parse(box.dataset.start);
if (start.state !== "idle") { show(start); if (start.state === "running") follow(); }
