// Pictures that cannot be made become cards that say why.
import "./neighbours.js";

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
