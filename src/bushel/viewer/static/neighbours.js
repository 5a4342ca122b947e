// Keys: left and right, or k and j, go to the neighbouring pages; Escape goes back to the grid.
const LINKS = { ArrowLeft: "before", k: "before", ArrowRight: "after", j: "after", Escape: "back" };
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const inside = event.target.closest("input, select, textarea, video, audio, pre, .wide");
  if (inside && event.key === "Escape") { event.target.blur(); return; }
  if (inside && (event.key.startsWith("Arrow") || inside.matches("input, select, textarea"))) return;
  document.getElementById(LINKS[event.key])?.click();
});
