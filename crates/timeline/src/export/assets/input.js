// Input: pointer, wheel, keys and buttons.

// The item under a point of the chart.
function look(x, y) {
  const { plot, ratio } = scene.layout;
  if (y < plot.top) {
    const kind = bands[Math.floor(y / (BAND + 2))];
    if (!kind || x < plot.left) return null;
    const span = timeline.spans[kind].find((span) => {
      const [from, to] = spanEdges(span);
      return from <= x && x < Math.max(to, from + 1);
    });
    return span ? { kind, span } : null;
  }
  const column = Math.floor((x - plot.left) * ratio);
  if (column < 0 || column >= scene.columns.width || y > plot.top + plot.height) return null;
  const { least, most } = { least: scene.columns.least[column], most: scene.columns.most[column] };
  if (most < 0) return null;
  const amount = (1 - (y - plot.top) / plot.height) * scene.top;
  const event = least >= 0 && amount < scene.totals[least] ? least : most;
  return { event, ...blockAt(scene, event, amount) };
}

function highestIn(span) {
  let most = 0;
  const end = Math.min(span.end, timeline.events);
  for (let event = span.start; event < end; event += 1) most = Math.max(most, scene.totals[event]);
  return most;
}

function lengthOf(span) {
  const length = timeline.time(span.end) - timeline.time(span.start);
  return timeline.clock === "operations" ? `${formatCount(length)} operations` : formatTime(length, Math.max(1, length / 1e3));
}

function plannedAt(event) {
  if (!overlay || !state.isOverlayShown) return "";
  const at = above(scene.planSteps.xs, view.steps.xs[event], scene.planSteps.events) - 1;
  return at < 0 ? "" : ` · ${formatBytes(scene.planned[at])} planned`;
}

function hover(pointer) {
  const box = stage.getBoundingClientRect();
  const [x, y] = [pointer.clientX - box.left, pointer.clientY - box.top];
  const found = scene && scene.layout ? look(x, y) : null;
  state.hovered = found && found.block !== undefined ? found.block : -1;
  state.cursor = found && found.event !== undefined ? x : null;
  redrawTop();
  if (!found) return tip.hide();
  const show = (title, rows, foot) => tip.show(pointer.clientX, pointer.clientY, title, rows, foot);
  if (found.span) {
    const rows = [["lasts", lengthOf(found.span)], [timeline.origin === "planned" ? "planned peak" : "peak in use", formatBytes(highestIn(found.span))]];
    return show(`${found.kind}: ${found.span.name}`.replace(`${found.kind}: ${found.kind}`, found.kind), rows, "click to zoom to it");
  }
  const total = `${formatBytes(scene.totals[found.event])} ${verbOf(timeline)}${plannedAt(found.event)}`;
  const phase = timeline.phaseAt(found.event);
  const moment = `${timeline.formatMoment(found.event)}${phase ? `, ${phase}` : ""}`;
  if (found.block !== undefined) return show(titleOf(timeline, found.block), rowsOf(timeline, found.block), `${moment} · ${total}`);
  if (found.small) return show(`${formatCount(found.small)} small blocks`, [["together", formatBytes(found.bytes)]], `${moment} · ${total}`);
  show(moment, [], total);
}

function unhover() {
  state.hovered = -1;
  state.cursor = null;
  tip.hide();
  redrawTop();
}

function move(change) {
  change();
  tip.hide();
  state.hovered = -1;
  redraw();
}

// A press without movement is a click. On a span it zooms to the span; elsewhere it picks the moment.
function click(x, y) {
  const found = look(x, y);
  if (!found) return;
  if (found.span) {
    const { xs } = view.steps;
    const [from, to] = [xs[found.span.start], xs[Math.min(found.span.end, timeline.events)]];
    return move(() => view.show(from - (to - from) * 0.02, to + (to - from) * 0.02));
  }
  pick(found.event);
}

const presses = new Map();

function press(pointer) {
  if (pointer.button > 0) return;
  stage.setPointerCapture(pointer.pointerId);
  const box = stage.getBoundingClientRect();
  const x = pointer.clientX - box.left;
  const pans = pointer.shiftKey || pointer.pointerType === "touch";
  presses.set(pointer.pointerId, { x, y: pointer.clientY - box.top, last: x, pans, hasMoved: false });
}

function drag(pointer) {
  const held = presses.get(pointer.pointerId);
  if (!held) return hover(pointer);
  const { plot } = scene.layout;
  const x = pointer.clientX - stage.getBoundingClientRect().left;
  if (Math.abs(x - held.x) > 4) held.hasMoved = true;
  if (!held.hasMoved) return;
  const before = held.last;
  held.last = x;
  if (presses.size > 1) return pinch(before, held);
  if (held.pans) return move(() => view.pan(((before - x) / plot.width) * view.span));
  const clamp = (at) => Math.max(plot.left, Math.min(plot.left + plot.width, at));
  state.selection = [clamp(held.x), clamp(x)];
  tip.hide();
  redrawTop();
}

// Two fingers zoom: the range between them stays between them.
function pinch(before, held) {
  const other = [...presses.values()].find((press) => press !== held);
  other.hasMoved = true;
  const [was, is] = [Math.abs(before - other.last), Math.abs(held.last - other.last)];
  if (was > 8 && is > 8) move(() => view.zoom(was / is, fromX(other.last)));
}

function release(pointer) {
  const held = presses.get(pointer.pointerId);
  presses.delete(pointer.pointerId);
  const { selection } = state;
  state.selection = null;
  if (!held) return;
  if (!held.hasMoved) return click(held.x, held.y);
  if (selection && Math.abs(selection[1] - selection[0]) > 4) {
    const [from, to] = selection.map(fromX).sort((a, b) => a - b);
    move(() => view.show(from, to));
  }
}

stage.addEventListener("pointerdown", press);
stage.addEventListener("pointermove", drag);
stage.addEventListener("pointerup", release);
stage.addEventListener("pointercancel", (pointer) => {
  presses.delete(pointer.pointerId);
  state.selection = null;
  redrawTop();
});
stage.addEventListener("pointerleave", () => presses.size || unhover());
stage.addEventListener("dblclick", () => move(() => view.reset()));
function turn(wheel) {
  const lines = wheel.deltaMode === 1 ? 16 : 1;
  if (Math.abs(wheel.deltaX) > Math.abs(wheel.deltaY)) {
    wheel.preventDefault();
    return move(() => view.pan(((wheel.deltaX * lines) / scene.layout.plot.width) * view.span));
  }
  // When everything is visible, the wheel scrolls the page.
  if (wheel.deltaY > 0 && view.isWhole) return;
  wheel.preventDefault();
  const at = fromX(wheel.clientX - stage.getBoundingClientRect().left);
  move(() => view.zoom(Math.exp(Math.max(-120, Math.min(120, wheel.deltaY * lines)) * 0.004), at));
}
for (const box of [stage, trackBox]) box.addEventListener("wheel", turn, { passive: false });

const KEYS = {
  ArrowLeft: () => view.pan(-view.span / 8),
  ArrowRight: () => view.pan(view.span / 8),
  "+": () => view.zoom(0.6),
  "=": () => view.zoom(0.6),
  "-": () => view.zoom(1 / 0.6),
  0: () => view.reset(),
  Home: () => view.reset(),
  ",": () => pick(state.moment - 1),
  ".": () => pick(state.moment + 1),
  p: () => pick(timeline.peak),
  Escape: () => state.chosen >= 0 && choose(state.chosen),
};
stage.addEventListener("keydown", (key) => {
  const act = KEYS[key.key];
  if (!act || key.ctrlKey || key.metaKey || key.altKey) return;
  key.preventDefault();
  move(act);
});

// The window's middle follows the pointer on the map.
const map = byId("map");
function moveWindow(pointer) {
  const { plot } = scene.layout;
  const part = (pointer.clientX - map.getBoundingClientRect().left - plot.left) / plot.width;
  const middle = view.first + part * (view.last - view.first);
  move(() => view.pan(middle - (view.low + view.high) / 2));
}
map.addEventListener("pointerdown", (pointer) => {
  map.setPointerCapture(pointer.pointerId);
  moveWindow(pointer);
});
map.addEventListener("pointermove", (pointer) => map.hasPointerCapture(pointer.pointerId) && moveWindow(pointer));

// A group of buttons with one pressed.
function choice(id, act) {
  byId(id).addEventListener("click", (click) => {
    const { value } = click.target.dataset;
    if (!value) return;
    for (const button of byId(id).children) button.setAttribute("aria-pressed", button.dataset.value === value);
    act(value);
    changed();
  });
}
choice("mode", (value) => (state.mode = value));
choice("axis", (value) => view.setAxis(value));
byId("axis").hidden = timeline.clock !== "nanoseconds";
byId("in").addEventListener("click", () => move(() => view.zoom(0.6)));
byId("out").addEventListener("click", () => move(() => view.zoom(1 / 0.6)));
byId("reset").addEventListener("click", () => move(() => view.reset()));
byId("peak").addEventListener("click", () => pick(timeline.peak));
byId("clear").addEventListener("click", () => choose(state.chosen));
byId("overlay").addEventListener("click", () => {
  state.isOverlayShown = !state.isOverlayShown;
  byId("overlay").setAttribute("aria-pressed", state.isOverlayShown);
  changed();
});
byId("device").hidden = DEVICES.length < 2;
byId("device").replaceChildren(
  ...DEVICES.map(({ timeline }, index) =>
    element("button", { type: "button", "data-value": index, "aria-pressed": index === 0 }, timeline.device)),
);
choice("device", (value) => chooseDevice(Number(value)));
describeOverlay();

// Starts the page, once everything above is defined.

new ResizeObserver(redraw).observe(stage);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  palette = readPalette();
  changed();
});
describe();
draw();
