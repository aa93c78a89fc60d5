// Runs before the first paint, so that a chosen theme never flashes.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* storage is off: the system's theme it is */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
