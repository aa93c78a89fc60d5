// Runs before the first paint, so that a chosen theme never flashes, nor what is there for browsers without scripts.
(() => {
  document.documentElement.dataset.scripts = "on";
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* storage is off: the system's theme it is */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
