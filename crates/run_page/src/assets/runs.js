// The runs, and what is computed from them once.

const data = JSON.parse(byId("data").textContent);
const RUNS = data.runs;
const COUNT = RUNS.length;
const NAMES = RUNS.map((run) => clean(run.name));
const COLOURS = 10;

const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(value);

const state = {
  // The run whose button is under the pointer, or -1.
  marked: -1,
  isShown: RUNS.map(() => true),
  // The horizontal axis: `step` or `seconds`.
  over: "step",
  isLog: false,
  // The share of a curve's readings that are averaged.
  smoothing: 0,
  // The position that is marked in all charts, on the horizontal axis.
  at: null,
};

const atText = (at) => (state.over === "step" ? `step ${formatCount(at)}` : formatDuration(at));

// Colours of the current scheme.
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const css = (name) => style.getPropertyValue(`--${name}`).trim();
  const runs = Array.from({ length: COLOURS }, (_, index) => css(`r${index}`));
  const names = ["ink", "soft", "line", "card"];
  return { ...Object.fromEntries(names.map((name) => [name, css(name)])), runs, family: getComputedStyle(document.body).fontFamily };
}
let palette = readPalette();
const colorOf = (run) => palette.runs[run % COLOURS];
