// The state of the page, and functions that change it.

const data = JSON.parse(byId("data").textContent);
const CATEGORIES = data.categories;
const PHASES = data.phases;
const DEVICES = data.devices;
const BANDS = ["step", "phase", "stage"];

// A timeline is built when it is first shown.
const known = DEVICES.map(() => null);
function device(index) {
  known[index] = known[index] || makeDevice(DEVICES[index]);
  return known[index];
}

function makeDevice(data) {
  const timeline = new Timeline(data.timeline, CATEGORIES);
  const bands = BANDS.filter((kind) => timeline.spans[kind].length);
  return { timeline, overlay: data.overlay && makeOverlay(data.overlay), bands };
}

function range() {
  const starts = DEVICES.map(({ timeline }) => timeline.time_deltas[0]).filter((start) => start !== undefined);
  const start = Math.min(...starts, DEVICES[0].timeline.end);
  return [start, Math.max(DEVICES[0].timeline.end, start + 1)];
}

// These belong to the device whose memory is shown.
let { timeline, overlay, bands } = device(0);
const view = new View(timeline, range());
const tip = new Tip();
const stage = byId("stage");
const state = {
  device: 0,
  mode: "category",
  shown: CATEGORIES.map(() => true),
  moment: timeline.peak,
  chosen: -1,
  hovered: -1,
  cursor: null,
  selection: null,
  isOverlayShown: true,
};
let scene = null;
let palette = readPalette();

// The part of the plan that the timeline overlaps.
function makeOverlay({ times, columns }) {
  const plan = new Timeline(columns, CATEGORIES);
  const first = times.findIndex((time) => time !== null);
  if (first < 0) return null;
  const last = times.findLastIndex((time) => time !== null);
  return { plan, first, times: times.slice(first, last + 1) };
}

function overlayTotals() {
  return overlay.plan.totals(state.shown).subarray(overlay.first, overlay.first + overlay.times.length);
}

// Everything that depends on the state but not on the window.
function makeScene() {
  const totals = timeline.totals(state.shown);
  const planned = overlay ? overlayTotals() : null;
  let most = totals.reduce((most, total) => Math.max(most, total), 0);
  if (planned && state.isOverlayShown) most = planned.reduce((most, total) => Math.max(most, total), most);
  const limit = timeline.limit;
  // A limit far above the peak would flatten the areas.
  const isLimitShown = limit !== null && limit <= most * 1.5;
  const top = (isLimitShown ? Math.max(most, limit) : most) * 1.07 || 1;
  const xs = overlay ? Float64Array.from(overlay.times, (time) => view.fromTime(time)) : null;
  const planSteps = xs ? new Steps(withEnd(xs)) : null;
  scene = { timeline, mode: state.mode, shown: state.shown, levels: timeline.levels, totals, planned, planSteps, isLimitShown, top, palette };
}

// Repeats the last position: the plan ends at its last event.
function withEnd(xs) {
  const ended = new Float64Array(xs.length + 1);
  ended.set(xs);
  ended[xs.length] = xs[xs.length - 1];
  return ended;
}

const frame = new Frame(() => draw());
function redraw() {
  frame.request();
}

function changed() {
  scene = null;
  redraw();
}

const topFrame = new Frame(() => {
  if (scene && scene.layout) drawTop();
});
function redrawTop() {
  if (!frame.isRequested) topFrame.request();
}

const table = new Table(timeline, choose);

function describe() {
  byId("moment").textContent = timeline.events ? describeMoment(timeline, state.moment) : "nothing was recorded";
  byId("peak").hidden = state.moment === timeline.peak;
  byId("clear").hidden = state.chosen < 0;
  fillLegend(timeline, state.moment, state.shown, toggle);
  table.fill(state.moment, state.chosen);
}

function pick(event) {
  if (!timeline.events) return;
  state.moment = Math.max(0, Math.min(timeline.events - 1, event));
  describe();
  redrawTop();
}

// Highlights a block, or clears the highlight if the block has it.
function choose(block) {
  state.chosen = state.chosen === block ? -1 : block;
  if (state.chosen >= 0) {
    state.shown[timeline.category[block]] = true;
    const { xs } = view.steps;
    const [from, to] = [xs[timeline.born[block]], timeline.died[block] === NEVER ? view.last : xs[timeline.died[block]]];
    if (to < view.low || from > view.high) view.pan((from + to) / 2 - (view.low + view.high) / 2);
  }
  describe();
  changed();
}

// Shows the memory of another device over the same time range.
function chooseDevice(index) {
  ({ timeline, overlay, bands } = device(index));
  Object.assign(state, { device: index, moment: timeline.peak, chosen: -1, hovered: -1 });
  view.setAxis(view.kind, timeline);
  table.timeline = timeline;
  for (const button of byId("device").children) button.setAttribute("aria-pressed", Number(button.dataset.value) === index);
  describeOverlay();
  describe();
  changed();
}

function describeOverlay() {
  byId("overlay").hidden = !overlay;
  if (overlay) byId("overlay").querySelector("span").textContent = overlay.plan.origin === "planned" ? "plan" : "measurement";
}

function toggle(category) {
  state.shown[category] = !state.shown[category];
  describe();
  changed();
}
