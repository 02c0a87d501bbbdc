// What all charts share: axes, and the trial under the pointer.

// Colours of the current scheme.
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const css = (name) => style.getPropertyValue(`--${name}`).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const names = ["ink", "soft", "line", "card", "faint", "limit", "band", "c0"];
  // A property that names another one is only resolved where it is used.
  const probe = element("i", {});
  document.body.append(probe);
  const statuses = STATUSES.map((_, status) => {
    probe.style.color = `var(--s${status})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return { ...Object.fromEntries(names.map((name) => [name, css(name)])), statuses, dark, family: getComputedStyle(document.body).fontFamily };
}
let palette = readPalette();

// Viridis at eleven places. The best trials stand out: they are dark on white, and bright on black.
const VIRIDIS = [
  [68, 1, 84], [72, 36, 117], [65, 68, 135], [53, 95, 141], [42, 120, 142], [33, 145, 140],
  [34, 168, 132], [68, 191, 112], [122, 209, 81], [189, 223, 38], [253, 231, 37],
];

// 0 is the best, 1 the worst.
function rampColor(place) {
  const at = (palette.dark ? 1 - place * 0.9 : place * 0.94) * (VIRIDIS.length - 1);
  const left = Math.min(VIRIDIS.length - 2, Math.floor(at));
  const mixed = VIRIDIS[left].map((part, index) => Math.round(part + (VIRIDIS[left + 1][index] - part) * (at - left)));
  return `rgb(${mixed.join(" ")})`;
}

const statusColor = (trial) => palette.statuses[TRIALS.status[trial]];
// Where complete and unfinished trials meet, the complete ones are above.
const DRAW_ORDER = Uint32Array.from({ length: COUNT }, (_, trial) => trial);
DRAW_ORDER.sort((a, b) => (TRIALS.status[a] === COMPLETE) - (TRIALS.status[b] === COMPLETE) || a - b);

class Chart extends CanvasChart {
  constructor(id) {
    super(id);
    this.box.addEventListener("pointermove", (pointer) => this.hover(pointer));
    this.box.addEventListener("pointerleave", () => setHovered(-1));
    this.box.addEventListener("click", (pointer) => this.click(...this.place(pointer)));
  }

  place(pointer) {
    const box = this.box.getBoundingClientRect();
    return [pointer.clientX - box.left, pointer.clientY - box.top];
  }

  hover(pointer) {
    const trial = this.nearest(...this.place(pointer));
    setHovered(trial);
    if (trial >= 0) tip.show(pointer.clientX, pointer.clientY, trial);
  }

  click(x, y) {
    const trial = this.nearest(x, y);
    if (trial >= 0) choose(trial);
  }

  draw() {
    const context = this.context(0);
    this.layOut(context);
    this.paint(context);
    this.drawTop();
  }

  drawTop() {
    const context = this.context(1);
    if (state.chosen >= 0) this.highlight(context, state.chosen, true);
    if (state.hovered >= 0 && state.hovered !== state.chosen) this.highlight(context, state.hovered, false);
  }

  // The plot inside the axes; `this.y` is the axis of values.
  layOutValues(context, { top = 10, bottom = 26, right = 12, range = state.range } = {}) {
    const { low, high, isLog } = range;
    const pad = 9;
    const y = new Scale(low, high, isLog, this.height - bottom - pad, top + pad);
    this.ticks = RANKED.length ? y.ticks(Math.max(2, (this.height - top - bottom) / 52)) : [];
    const labels = this.ticks.map((tick) => formatNumber(tick));
    const left = Math.ceil(Math.max(24, ...labels.map((label) => context.measureText(label).width))) + 12;
    this.plot = { left, top, width: Math.max(1, this.width - left - right), height: Math.max(1, this.height - top - bottom) };
    this.plot.right = left + this.plot.width;
    this.plot.bottom = top + this.plot.height;
    this.y = y;
  }

  paintValues(context) {
    const { plot, y } = this;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of this.ticks) {
      const at = Math.round(y.at(tick)) + 0.5;
      if (at < plot.top || at > plot.bottom) continue;
      context.fillStyle = palette.soft;
      context.fillText(formatNumber(tick), plot.left - 8, at);
      context.fillStyle = palette.line;
      context.fillRect(plot.left, at - 0.5, plot.width, 1);
    }
    context.fillStyle = palette.line;
    context.fillRect(plot.left, plot.bottom, plot.width, 1);
  }

  // Labels below the plot. One that would touch the one before is left out.
  paintBelow(context, ticks, at, text) {
    const { plot } = this;
    context.textBaseline = "top";
    context.textAlign = "center";
    let free = -Infinity;
    for (const tick of ticks) {
      const x = at(tick);
      const label = text(tick);
      const half = context.measureText(label).width / 2;
      const middle = Math.max(plot.left + half - 8, Math.min(this.width - half - 2, x));
      context.fillStyle = palette.line;
      context.fillRect(Math.round(x), plot.bottom, 1, 5);
      if (middle - half < free) continue;
      free = middle + half + 8;
      context.fillStyle = palette.soft;
      context.fillText(label, middle, plot.bottom + 8);
    }
  }

  // A trial's mark: a disc, a ring, or at the edge of the plot an arrow that says where it would be.
  mark(context, x, value, color, { radius, isRing = false }) {
    const y = this.y.clamped(value);
    context.fillStyle = color;
    context.beginPath();
    if (this.y.has(value)) {
      context.arc(x, y, isRing ? radius - 0.4 : radius, 0, 7);
    } else {
      const up = value > this.y.high ? -1 : 1;
      const size = radius + 1;
      context.moveTo(x - size, y);
      context.lineTo(x + size, y);
      context.lineTo(x, y + up * (size + 2));
      context.closePath();
    }
    if (!isRing) return context.fill();
    context.lineWidth = 1.4;
    context.strokeStyle = color;
    context.stroke();
  }

  // A mark with an outline, on the top canvas.
  spot(context, x, value, color, isStrong) {
    const y = this.y.clamped(value);
    context.beginPath();
    context.arc(x, y, isStrong ? 6 : 5, 0, 7);
    context.fillStyle = color;
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = palette.ink;
    context.stroke();
  }

  // The trial whose place is nearest to a point, within some pixels.
  nearestOf(x, y, place, reach = 14) {
    let best = reach * reach;
    let found = -1;
    for (let trial = 0; trial < COUNT; trial += 1) {
      if (!state.isIn[trial]) continue;
      const at = place(trial);
      if (!at) continue;
      const distance = (at[0] - x) ** 2 + (at[1] - y) ** 2;
      if (distance < best) [best, found] = [distance, trial];
    }
    return found;
  }
}

const dotRadius = () => (COUNT > 1000 ? 2.2 : COUNT > 300 ? 2.8 : 3.6);
const beyondText = (count) => (count ? ` · ${plural(count, "value is", "values are")} beyond the axis (▲▼)` : "");

function countBeyond(scale) {
  let beyond = 0;
  for (let trial = 0; trial < COUNT; trial += 1) beyond += state.isIn[trial] && isKnown(QUALITY[trial]) && !scale.has(QUALITY[trial]) ? 1 : 0;
  return beyond;
}

// A text in the middle of a chart that has nothing to draw.
function paintEmpty(chart, context, text) {
  context.fillStyle = palette.soft;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, chart.plot.left + chart.plot.width / 2, chart.plot.top + chart.plot.height / 2);
}
