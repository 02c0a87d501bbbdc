// The state of the page, and functions that change it.

const state = {
  hovered: -1,
  chosen: -1,
  isStatusShown: STATUSES.map(() => true),
  // By axis of the parallel coordinates: the range of values that is kept.
  brushes: new Map(),
  isIn: new Uint8Array(COUNT).fill(1),
  isLengthLog: false,
  format: "toml",
  // Of the values of trials, and of all values of their curves.
  range: null,
  curveRange: null,
};

// The axis of values, which all charts share.
const least = CURVE_VALUES.reduce((least, value) => Math.min(least, value), Infinity);
const most = CURVE_VALUES.reduce((most, value) => Math.max(most, value), -Infinity);
const canValueLog = least > 0 && most > least * 5;
function setValueAxis(isLog) {
  state.range = rangeOf(VALUES, isLog);
  state.curveRange = rangeOf(CURVE_VALUES, isLog);
}
const usual = rangeOf(VALUES, false);
setValueAxis(canValueLog && usual.high > usual.low * 100);

const tip = new Tip();
const parallel = new Parallel();
new Progress();
new Curves();
new Memory();
const table = new Table();

function drawTops() {
  for (const chart of charts) if (chart.plot && chart.box.clientWidth) chart.drawTop();
}

function setHovered(trial) {
  if (trial < 0) tip.hide();
  if (trial === state.hovered) return;
  table.mark("hovered", state.hovered, trial);
  state.hovered = trial;
  drawTops();
}

// Chooses a trial, or leaves it if it is chosen.
function choose(trial) {
  const before = state.chosen;
  state.chosen = trial === before ? -1 : trial;
  table.mark("chosen", before, state.chosen);
  showTrial();
  drawTops();
}

// Recomputes which trials are shown.
function filter() {
  const ranges = [...state.brushes];
  for (let trial = 0; trial < COUNT; trial += 1) {
    const isWithin = ([axis, [low, high]]) => {
      const number = parallel.numberOf(axis, trial);
      return isKnown(number) && parallel.isWithin(axis, number, low, high);
    };
    state.isIn[trial] = state.isStatusShown[TRIALS.status[trial]] && ranges.every(isWithin) ? 1 : 0;
  }
  const shown = state.isIn.reduce((sum, is) => sum + is, 0);
  const isAll = !ranges.length && state.isStatusShown.every(Boolean);
  byId("filtered").textContent = isAll ? "" : `${formatCount(shown)} of ${plural(COUNT, "trial", "trials")}`;
  byId("clear").hidden = isAll;
  table.count = AT_FIRST;
  table.fill();
  redraw();
}

function brush(axis, range) {
  if (range) state.brushes.set(axis, range);
  else state.brushes.delete(axis);
  filter();
}

// The trial whose parameters are shown: the chosen one, or the best.
function showTrial() {
  const trial = state.chosen >= 0 ? state.chosen : data.best;
  byId("trial").hidden = trial === null;
  if (trial === null) return;
  const isBest = trial === data.best;
  const value = isKnown(QUALITY[trial]) ? `, ${METRIC} ${formatNumber(QUALITY[trial], 5)}` : "";
  const name = `trial ${formatCount(TRIALS.number[trial])}`;
  byId("trial-title").textContent = isBest ? `best: ${name}${value}` : `${name}, ${STATUSES[TRIALS.status[trial]]}${value}`;
  byId("to-best").hidden = isBest || data.best === null;
  const pairs = PARAMETERS.filter((parameter) => parameter.numbers[trial] !== null).map((parameter) => [parameter.label, valueText(parameter, parameter.numbers[trial])]);
  if (REACHED[trial] !== null) pairs.push(["length", lengthText(REACHED[trial])]);
  if (TRIALS.planned[trial] !== null) pairs.push(["planned peak", formatBytes(TRIALS.planned[trial])]);
  if (TRIALS.measured[trial] !== null) pairs.push(["peak in use", formatBytes(TRIALS.measured[trial])]);
  if (TRIALS.seconds[trial] !== null) pairs.push(["time", formatDuration(TRIALS.seconds[trial])]);
  byId("pairs").replaceChildren(...pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  byId("trial-note").textContent = noteText(trial);
  const written = settings(trial);
  byId("text").textContent = state.format === "toml" ? tomlText(written) : flagsText(written);
}

document.querySelector(".filters").hidden = !COUNT;
byId("parallel-hint").hidden = !COUNT;

choice("format", "toml", (value) => {
  state.format = value;
  showTrial();
});
byId("values-switch").hidden = !canValueLog;
choice("values", state.range.isLog ? "log" : "linear", (value) => {
  setValueAxis(value === "log");
  redraw();
});
choice("lengths", state.isLengthLog ? "log" : "linear", (value) => {
  state.isLengthLog = value === "log";
  redraw();
});
choice("basis", "0", (value) => {
  for (const bars of document.querySelectorAll(".basis")) bars.hidden = bars.dataset.basis !== value;
});
byId("statuses").addEventListener("click", (click) => {
  const chip = click.target.closest("button");
  if (!chip) return;
  const status = Number(chip.dataset.status);
  state.isStatusShown[status] = !state.isStatusShown[status];
  chip.setAttribute("aria-pressed", state.isStatusShown[status]);
  filter();
});
byId("clear").addEventListener("click", () => {
  state.brushes.clear();
  state.isStatusShown.fill(true);
  for (const chip of byId("statuses").children) chip.setAttribute("aria-pressed", true);
  filter();
});
byId("to-best").addEventListener("click", () => choose(state.chosen));
addEventListener("keydown", (key) => key.key === "Escape" && state.chosen >= 0 && choose(state.chosen));

// The clipboard may be closed to pages from files; then the text is selected, and the browser's own command copies it.
function selectText() {
  const selection = getSelection();
  selection.selectAllChildren(byId("text"));
  return document.execCommand("copy");
}
byId("copy").addEventListener("click", () => {
  const done = (isDone) => {
    byId("copy").textContent = isDone ? "copied" : "selected";
    setTimeout(() => (byId("copy").textContent = "copy"), 1500);
  };
  const write = navigator.clipboard ? navigator.clipboard.writeText(byId("text").textContent) : Promise.reject();
  write.then(() => done(true), () => done(selectText()));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  palette = readPalette();
  redraw();
});

showTrial();
table.fill();
drawAll();
// Since the page began to load.
document.body.dataset.drawnMs = performance.now().toFixed(0);
