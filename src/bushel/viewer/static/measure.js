// Quality: "Measure all" asks again until every sample is measured, and shows how far it is. A second click stops.
for (const button of document.querySelectorAll("[data-measure]")) {
  const box = button.closest(".measuring"), bar = box.querySelector("progress"), said = box.querySelector("p");
  let running = false;
  button.addEventListener("click", async () => {
    running = !running;
    if (!running) return;
    button.textContent = "Stop";
    try {
      while (running) {
        const answer = await fetch(button.dataset.measure, { method: "POST" });
        const found = await answer.json();
        if (!answer.ok) throw new Error(found.error);
        bar.value = found.done;
        said.textContent = `${found.done.toLocaleString("en")} of ${found.total.toLocaleString("en")} samples are measured.`;
        if (found.done >= found.total) break;
      }
      location.reload();
    } catch (error) {
      running = false;
      button.textContent = "Measure all";
      said.textContent = error instanceof TypeError ? "The viewer does not answer." : error.message;
    }
  });
}
