// Pictures that cannot be made become cards that say why; arrow keys go to the neighbouring pages.
for (const image of document.querySelectorAll("img.card")) {
  const explain = async () => {
    const answer = await fetch(image.src);
    const card = document.createElement("span");
    card.className = "why card";
    card.textContent = answer.ok ? "this picture cannot be shown" : (await answer.json()).error;
    card.title = card.textContent;
    image.replaceWith(card);
  };
  if (image.complete && image.naturalWidth === 0 && image.loading !== "lazy") explain();
  else image.addEventListener("error", explain, { once: true });
}
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea, .wide") || event.altKey || event.ctrlKey || event.metaKey) return;
  const link = { ArrowLeft: "before", ArrowRight: "after" }[event.key];
  if (link) document.getElementById(link)?.click();
});
