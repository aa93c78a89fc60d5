// Plots by Vega-Lite without eval: specifications are compiled to a tree and interpreted.
import { expressionInterpreter } from "./vendor/vega-interpreter.js";

const { vega, vegaLite } = globalThis;
const views = new Map();

function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "line", "card", "accent", "band", "core", "wrong", "wrong-band", "truth", "edge"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function config(paint) {
  const sans = "Inter, system-ui, sans-serif";
  return {
    background: "transparent", font: sans, padding: { left: 0, right: 16, top: 4, bottom: 0 }, autosize: { type: "fit", contains: "padding" },
    view: { stroke: null },
    axis: { labelColor: paint.soft, titleColor: paint.soft, gridColor: paint.line, domain: false, ticks: false, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500, labelPadding: 8, titlePadding: 10 },
    text: { font: sans, color: paint.ink },
  };
}

// A scale of numbers, or of dates in milliseconds, which have no zone.
function line(told, domain) {
  const scale = { domain, nice: false, clamp: true };
  return told.dates ? { type: "temporal", scale: { ...scale, type: "utc" } } : { type: "quantitative", scale };
}

const specifications = {
  answers(values, paint, width) {
    const tall = 52;
    const y = { field: "place", type: "ordinal", axis: null, scale: { paddingInner: 0 } };
    const x = { type: "quantitative", scale: { domain: [0, 1], nice: false } };
    const axis = { values: [0, 0.25, 0.5, 0.75, 1], title: null, format: ".2~f", orient: "top", gridDash: [2, 3] };
    const known = { filter: "isValid(datum.truth)" };
    const tooltip = [
      { field: "question", title: "question" }, { field: "said", title: "answer" },
      { field: "ends", title: "population" }, { field: "told", title: "truth" }];
    return {
      height: tall * values.length + 8, data: { values },
      layer: [
        { mark: { type: "bar", height: 12, cornerRadius: 3, color: paint.band, yOffset: 10 }, encoding: { y, x: { ...x, field: "low", axis }, x2: { field: "high" }, tooltip } },
        { mark: { type: "bar", height: 12, cornerRadius: 2, color: paint.core, yOffset: 10 }, encoding: { y, x: { ...x, field: "near" }, x2: { field: "far" }, tooltip } },
        { mark: { type: "point", filled: true, size: 90, color: paint.accent, stroke: paint.card, strokeWidth: 2, opacity: 1, yOffset: 10 }, encoding: { y, x: { ...x, field: "value" }, tooltip } },
        { transform: [known], mark: { type: "tick", thickness: 2.5, size: 24, color: paint.truth, opacity: 1, yOffset: 10 }, encoding: { y, x: { ...x, field: "truth" }, tooltip } },
        { mark: { type: "text", align: "left", baseline: "middle", dy: -11, font: "IBM Plex Mono, monospace", fontSize: 12.5, limit: width - 60, color: paint.ink }, encoding: { y, x: { datum: 0, type: "quantitative" }, text: { field: "question" } } },
        { mark: { type: "text", align: "right", baseline: "middle", dy: -11, fontSize: 13, fontWeight: 600, color: paint.ink }, encoding: { y, x: { datum: 1, type: "quantitative" }, text: { field: "said" } } },
      ],
    };
  },

  // Bars from the lower end with whiskers, or a point on its interval; the truth is a tick.
  cells(values, paint, width, told) {
    const domain = [Number(told.low), Number(told.high)];
    const y = { field: "place", type: "ordinal", axis: null, scale: { paddingInner: 0 } };
    const x = line(told, domain);
    const axis = { title: null, orient: "top", gridDash: [2, 3], tickCount: width < 500 ? 4 : 6 };
    const tooltip = [{ field: "name", title: "cell" }, { field: "said", title: "answer" }, { field: "ends", title: "interval" }, { field: "told", title: "truth" }];
    const ends = { x: { ...x, field: "low", axis }, x2: { field: "high" } };
    const marks = told.bars ? [
      { mark: { type: "bar", height: 16, cornerRadiusEnd: 2, color: paint.band, yOffset: 10 }, encoding: { y, x: { ...x, field: "value", axis }, x2: { datum: domain[0] }, tooltip } },
      { mark: { type: "rule", strokeWidth: 2, color: paint.accent, yOffset: 10 }, encoding: { y, ...ends, tooltip } },
      ...["low", "high"].map((field) => ({ mark: { type: "tick", thickness: 2, size: 10, color: paint.accent, opacity: 1, yOffset: 10 }, encoding: { y, x: { ...x, field }, tooltip } })),
    ] : [
      { mark: { type: "bar", height: 12, cornerRadius: 3, color: paint.band, yOffset: 10 }, encoding: { y, ...ends, tooltip } },
      { mark: { type: "point", filled: true, size: 90, color: paint.accent, stroke: paint.card, strokeWidth: 2, opacity: 1, yOffset: 10 }, encoding: { y, x: { ...x, field: "value" }, tooltip } },
    ];
    return {
      height: 50 * values.length + 8, data: { values },
      layer: [
        ...marks,
        { transform: [{ filter: "isValid(datum.truth)" }], mark: { type: "tick", thickness: 2.5, size: 24, color: paint.truth, opacity: 1, yOffset: 10 }, encoding: { y, x: { ...x, field: "truth" }, tooltip } },
        { mark: { type: "text", align: "left", baseline: "middle", dy: -11, fontSize: 12.5, limit: width - 90, color: paint.ink }, encoding: { y, x: { ...x, datum: domain[0] }, text: { field: "name" } } },
        { mark: { type: "text", align: "right", baseline: "middle", dy: -11, fontSize: 13, fontWeight: 600, color: paint.ink }, encoding: { y, x: { ...x, datum: domain[1] }, text: { field: "said" } } },
      ],
    };
  },

  // The share at or below each value, and each quantile with its interval at its level.
  distribution(values, paint, width, told) {
    const x = { ...line(told, [Number(told.low), Number(told.high)]), axis: { title: told.name, grid: false, tickCount: width < 500 ? 4 : 8 } };
    const y = { type: "quantitative", scale: { domain: [0, 1], nice: false }, axis: { title: null, format: ".0%", values: [0, 0.25, 0.5, 0.75, 1], gridDash: [2, 3] } };
    const marks = { values: JSON.parse(told.marks) };
    const at = { ...y, field: "level" };
    const tooltip = [{ field: "name", title: "level" }, { field: "said", title: "answer" }, { field: "ends", title: "interval" }, { field: "told", title: "truth" }];
    return {
      height: 260, data: { values },
      layer: [
        { mark: { type: "line", interpolate: "step-after", strokeWidth: 2, color: paint.core }, encoding: { x: { ...x, field: "at" }, y: { ...y, field: "share" } } },
        { data: marks, mark: { type: "rule", strokeWidth: 12, color: paint.band, opacity: 0.85 }, encoding: { y: at, x: { ...x, field: "low" }, x2: { field: "high" }, tooltip } },
        { data: marks, mark: { type: "point", filled: true, size: 90, color: paint.accent, stroke: paint.card, strokeWidth: 2, opacity: 1 }, encoding: { y: at, x: { ...x, field: "value" }, tooltip } },
        { data: marks, transform: [{ filter: "isValid(datum.truth)" }], mark: { type: "tick", thickness: 2.5, size: 24, orient: "vertical", color: paint.truth, opacity: 1 }, encoding: { y: at, x: { ...x, field: "truth" }, tooltip } },
      ],
    };
  },

  duel(values, paint, width, told) {
    const wrong = told.side === "naive";
    const [line, band] = wrong ? [paint.wrong, paint["wrong-band"]] : [paint.accent, paint.band];
    const x = { field: "looks", type: "quantitative", scale: { domain: [0, 1020], nice: false }, axis: { title: "looks at the same rows", values: [0, 250, 500, 750, 1000], grid: false } };
    const scale = { domain: [0.32, 0.68], nice: false, clamp: true };
    const y = { field: "value", type: "quantitative", scale, axis: { title: null, values: [0.4, 0.5, 0.6], format: ".0%" } };
    return {
      height: 260, data: { name: "steps", values },
      layer: [
        { mark: { type: "area", color: band, opacity: 0.75, interpolate: "linear", clip: true }, encoding: { x, y: { ...y, field: "low" }, y2: { field: "high" } } },
        { data: { values: [{}] }, mark: { type: "rule", color: paint.truth, strokeWidth: 2 }, encoding: { y: { datum: 0.5, type: "quantitative", scale } } },
        { mark: { type: "line", color: line, strokeWidth: 2.5 }, encoding: { x, y } },
        { mark: { type: "point", filled: true, size: 36, color: line, opacity: 1 }, encoding: { x, y } },
      ],
    };
  },

  // An agent's score on a plain holdout, the truth that stays where it is, and what the gate said below.
  climb(values, paint, width, told) {
    const x = { field: "looks", type: "quantitative", scale: { domain: [0, Number(told.looks)], nice: false }, axis: { title: "candidates tried", grid: false, tickCount: width < 500 ? 4 : 6 } };
    const scale = { domain: [0.42, 0.78], nice: false, clamp: true };
    const y = { type: "quantitative", scale, axis: { title: null, values: [0.5, 0.6, 0.7], format: ".0%" } };
    const tooltip = [{ field: "looks", title: "candidates" }, { field: "naive", title: "plain holdout", format: ".1%" }, { field: "said", title: "yes of the gate" }, { field: "refused", title: "no of the gate" }];
    return {
      height: 280, data: { values },
      layer: [
        { mark: { type: "line", color: paint.wrong, strokeWidth: 2.5, interpolate: "step-after" }, encoding: { x, y: { ...y, field: "naive" }, tooltip } },
        { mark: { type: "line", color: paint.truth, strokeWidth: 2 }, encoding: { x, y: { ...y, field: "truth" }, tooltip } },
        { mark: { type: "tick", thickness: 1.5, size: 12, color: paint.accent, opacity: 1 }, encoding: { x, y: { datum: 0.45, type: "quantitative", scale }, tooltip } },
      ],
    };
  },

  methods(values, paint, width) {
    const y = { field: "method", type: "ordinal", sort: null, axis: null };
    const x = { field: "rows", type: "quantitative", scale: { type: "log", nice: false }, axis: { title: null, orient: "top", format: "~s", values: [1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10], gridDash: [2, 3] } };
    const colour = { condition: { test: "datum.chosen", value: paint.accent }, value: paint.edge };
    const tooltip = [{ field: "method" }, { field: "needed", title: "rows needed" }, { field: "note" }];
    const most = Math.max(...values.map((value) => value.rows)), least = Math.min(...values.map((value) => value.rows));
    x.scale.domain = [least / 1.6, most * 1.25];
    return {
      height: 40 * values.length, data: { values },
      layer: [
        { mark: { type: "rule", strokeWidth: 2, yOffset: 8 }, encoding: { y, x, x2: { datum: least / 1.6 }, color: colour, tooltip } },
        { mark: { type: "point", filled: true, size: 110, opacity: 1, yOffset: 8 }, encoding: { y, x, color: colour, tooltip } },
        { mark: { type: "text", align: "left", baseline: "middle", dy: -9, fontSize: 12.5, limit: width - 100 }, encoding: { y, x: { datum: least / 1.6, type: "quantitative" }, text: { field: "label" }, color: { condition: { test: "datum.chosen", value: paint.accent }, value: paint.ink } } },
        { mark: { type: "text", align: "right", baseline: "middle", dy: -9, fontSize: 12.5, fontWeight: 600, color: paint.ink }, encoding: { y, x: { datum: most * 1.25, type: "quantitative" }, text: { field: "needed" } } },
      ],
    };
  },
};

export async function draw(box) {
  const values = JSON.parse(box.dataset.values);
  views.get(box)?.finalize();
  views.delete(box);
  box.replaceChildren();
  const width = Math.floor(box.clientWidth);
  if (!width || (!values.length && box.dataset.plot !== "duel")) return;
  const paint = colours();
  const specification = specifications[box.dataset.plot](values, paint, width, box.dataset);
  const whole = { $schema: "https://vega.github.io/schema/vega-lite/v6.json", width, ...specification, config: config(paint) };
  const view = new vega.View(vega.parse(vegaLite.compile(whole).spec, null, { ast: true }), {
    expr: expressionInterpreter, renderer: "canvas", container: box, hover: true,
    loader: { load: refused, sanitize: refused, http: refused, file: refused }, logLevel: vega.Error,
  });
  views.set(box, view);
  await view.runAsync();
}

// A plot as a file, on the paper that it is shown on.
async function save(button) {
  const view = views.get(document.getElementById(button.dataset.export));
  if (!view) return;
  const text = await view.background(colours().card).toSVG();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  link.download = button.dataset.file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-export]");
  if (button) save(button).catch((error) => console.error(error));
});

async function refused() {
  throw new Error("plots load nothing");
}

function drawAll(root = document) {
  const boxes = [...root.querySelectorAll("[data-plot]")];
  if (root.matches?.("[data-plot]")) boxes.push(root);
  for (const button of root.querySelectorAll("[data-export]")) button.hidden = false;
  for (const box of boxes) draw(box).catch((error) => console.error(error));
}

// New steps of an attack go into the plots that are there already.
function feed(root) {
  const source = root.matches?.("[data-steps]") ? root : root.querySelector?.("[data-steps]");
  if (!source) return;
  const steps = JSON.parse(source.dataset.steps);
  for (const box of document.querySelectorAll("[data-plot=duel]")) {
    const values = steps.map((step) => ({ looks: step.looks, ...step[box.dataset.side] }));
    box.dataset.values = JSON.stringify(values);
    const view = views.get(box);
    if (view) view.data("steps", values).runAsync();
    else draw(box);
  }
}

await document.fonts.ready;
drawAll();
feed(document);
htmx.onLoad((root) => { drawAll(root); feed(root); });
document.addEventListener("themed", () => drawAll());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
let last = innerWidth;
let waiting = 0;
addEventListener("resize", () => {
  if (innerWidth === last) return;
  last = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(() => drawAll(), 120);
});
