// What HTML cannot do by itself: theme, drafts, chips, sliders, copying, scrolling. Without it every form still works.

const store = {
  read(name) { try { return localStorage.getItem(name); } catch { return null; } },
  write(name, value) { try { value === null ? localStorage.removeItem(name) : localStorage.setItem(name, value); } catch { /* off */ } },
};

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function changed(field) {
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

// A column or an example goes into the question, where the caret is.
function insert(field, text) {
  const start = field.selectionStart ?? field.value.length;
  const before = field.value.slice(0, start);
  const gap = before && !/[\s(]$/.test(before) ? " " : "";
  field.setRangeText(gap + text, start, field.selectionEnd ?? start, "end");
  field.focus();
  changed(field);
}

// The field that a column goes into: the question, or the condition of the form that is open.
function writable() {
  return [...document.querySelectorAll("[data-takes]")].find((field) => field.offsetParent);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const field = writable();
  if (button.matches("[data-theme-toggle]")) {
    const theme = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    store.write("theme", theme);
    document.dispatchEvent(new Event("themed"));
  } else if (button.dataset.column && field) {
    insert(field, button.dataset.column);
  } else if (button.dataset.query && field) {
    const query = document.getElementById("query");
    document.getElementById("kind-share").checked = true;
    query.value = button.dataset.query;
    query.focus();
    changed(query);
  } else if (button.dataset.copy) {
    copy(button);
  } else if (button.dataset.save) {
    save(document.getElementById(button.dataset.save), button.dataset.file);
  }
});

// A drawing of the page as a file: what the style sheet says of each shape is written into it.
const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight"];
function save(drawing, name) {
  const copied = drawing.cloneNode(true);
  const { width, height } = drawing.getBoundingClientRect();
  const shapes = [...drawing.querySelectorAll("*")];
  [...copied.querySelectorAll("*")].forEach((shape, place) => {
    const style = getComputedStyle(shapes[place]);
    for (const each of DRAWN) shape.setAttribute(each, style.getPropertyValue(each));
  });
  for (const [each, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height })) copied.setAttribute(each, value);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copied)], { type: "image/svg+xml" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
function offerToSave(root) {
  for (const button of root.querySelectorAll("[data-save]")) button.hidden = false;
}
offerToSave(document);
document.addEventListener("htmx:load", (event) => offerToSave(event.target));

// A file that is dropped on its field is chosen.
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    const box = event.target.closest?.("[data-drop]");
    if (!box) return;
    event.preventDefault();
    box.toggleAttribute("data-over", kind === "dragenter" || kind === "dragover");
    if (kind !== "drop" || !event.dataTransfer.files.length) return;
    const input = box.querySelector("input[type=file]");
    input.files = event.dataTransfer.files;
    input.focus();
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

// A refusal of a field stands beside it, and the field is named wrong until it is changed.
function clearWrong(form) {
  for (const told of form.querySelectorAll(".wrong-field")) told.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
}
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.elt.matches("form, button")) clearWrong(event.detail.elt.closest("form"));
});
document.addEventListener("htmx:afterSettle", (event) => {
  const sender = event.detail.requestConfig?.elt;
  const problem = event.detail.target?.querySelector?.(".problem[data-field]");
  if (!sender?.matches?.("form, button") || !problem) return;
  const form = sender.closest("form");
  const found = form.elements[problem.dataset.field];
  const field = found instanceof RadioNodeList ? found[0] : found;
  if (!field || field.type === "hidden") return;
  const told = document.createElement("p");
  told.className = "wrong-field";
  told.setAttribute("role", "alert");
  told.id = `wrong-${form.id}-${problem.dataset.field}`;
  told.textContent = problem.querySelector("p").textContent;
  (field.closest(".field, fieldset") ?? field).append(told);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-errormessage", told.id);
  const inside = field.closest("details");
  if (inside) inside.open = true;
  field.focus();
});

// An answer that came below the fold is brought into sight.
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target?.id === "said") event.detail.target.scrollIntoView({ block: "nearest" });
});

async function copy(button) {
  const told = button.dataset.told ?? (button.dataset.told = button.textContent);
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "copied";
  } catch {
    button.textContent = button.dataset.copy;
    return;
  }
  setTimeout(() => { button.textContent = told; }, 1600);
}

// A draft survives a reload; the address, if it holds a question, wins.
for (const field of document.querySelectorAll("[data-draft]")) {
  const name = `draft:${field.dataset.draft}`;
  if (!field.value) field.value = store.read(name) ?? "";
  field.addEventListener("input", () => store.write(name, field.value || null));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      field.form.requestSubmit();
    }
  });
}

// What the card says of a chosen column goes into the fields beside it: bounds, cut points, a step.
function fill(chosen, form, keep) {
  if (!chosen?.dataset.fills) return;
  for (const [name, value] of Object.entries(JSON.parse(chosen.dataset.fills))) {
    const field = form.elements[`${chosen.name ?? chosen.parentElement.name}_${name}`] ?? form.elements[name];
    if (field && !(keep && field.value)) field.value = value;
  }
}
document.addEventListener("input", (event) => {
  const field = event.target;
  if (field.matches(".choice select, .choice input[type=radio]")) fill(field.selectedOptions?.[0] ?? field, field.form, false);
});
for (const chosen of document.querySelectorAll(".choice input:checked, .choice option:checked")) fill(chosen, chosen.closest("form"), true);

// Sliders of the planner: each moves the number beside it, on a logarithmic scale, and follows it.
const STEPS = 1000;
function shown(value) {
  return String(value >= 1 ? Math.round(Number(value.toPrecision(2))) : Number(value.toPrecision(2)));
}
for (const slider of document.querySelectorAll("[data-logarithmic]")) {
  const field = document.getElementById(slider.dataset.logarithmic);
  const [low, high] = [Math.log(Number(field.min)), Math.log(Number(field.max))];
  Object.assign(slider, { min: 0, max: STEPS, step: 1 });
  const follow = () => { slider.value = (STEPS * (Math.log(Number(field.value)) - low)) / (high - low); };
  follow();
  field.addEventListener("input", follow);
  slider.addEventListener("input", () => { field.value = shown(Math.exp(low + ((high - low) * slider.value) / STEPS)); });
}

// What is to be found is not asked for.
function hide() {
  const wanted = document.querySelector("input[name=find]:checked")?.value;
  for (const field of document.querySelectorAll("[data-needs]")) {
    const off = field.dataset.needs === wanted;
    field.toggleAttribute("data-off", off);
    for (const input of field.querySelectorAll("input")) input.disabled = off;
  }
}
for (const choice of document.querySelectorAll("input[name=find]")) choice.addEventListener("input", hide);
hide();
