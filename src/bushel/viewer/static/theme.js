// Light or dark: the system's choice, unless the button was used.
const root = document.documentElement;
const kept = localStorage.getItem("bushel-theme");
if (kept) root.dataset.theme = kept;

function dark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

document.getElementById("theme")?.addEventListener("click", () => {
  root.dataset.theme = dark() ? "light" : "dark";
  localStorage.setItem("bushel-theme", root.dataset.theme);
});
