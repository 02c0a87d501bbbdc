// A chart of one metric: the curves of all runs, and above them the marked position.

const TIP_ROWS = 12;
// Readings of more curves than this are not marked: their marks would hide each other.
const MOST_MARKED = 24;
const PAD = { top: 8, bottom: 26, right: 12 };

class Chart extends CanvasChart {
  constructor(id, metric) {
    super(id);
    Object.assign(this, { id, metric });
    this.box.closest("section").hidden = !metric.curves.some((curve) => curve.values.length);
    this.box.addEventListener("pointermove", (pointer) => this.hover(pointer));
    this.box.addEventListener("pointerleave", () => mark(null));
    this.box.addEventListener("keydown", (key) => this.press(key));
    this.box.addEventListener("blur", () => mark(null));
  }

  hover(pointer) {
    const box = this.box.getBoundingClientRect();
    const x = Math.max(this.x.from, Math.min(this.x.to, pointer.clientX - box.left));
    mark(this.x.value(x));
    this.showTip(pointer.clientX, pointer.clientY, pointer.clientY - box.top);
  }

  // Arrow keys move the marked position.
  press({ key }) {
    const { low, high } = this.x;
    const from = state.at === null ? low : state.at;
    const to = { ArrowLeft: from - (high - low) / 50, ArrowRight: from + (high - low) / 50, Home: low, End: high }[key];
    if (key === "Escape") return mark(null);
    if (to === undefined) return undefined;
    mark(Math.max(low, Math.min(high, to)));
    const box = this.box.getBoundingClientRect();
    return this.showTip(box.left + this.x.at(state.at), box.top + box.height / 2, null);
  }

  draw() {
    const context = this.context(0);
    this.shown = this.metric.curves.filter((curve) => curve.isShown);
    this.layOut(context);
    this.paintAxes(context);
    context.save();
    context.beginPath();
    context.rect(this.left - 4, 0, this.right - this.left + 8, this.bottom + 2);
    context.clip();
    for (const curve of this.shown) if (curve.run !== state.marked) this.paint(context, curve);
    for (const curve of this.shown) if (curve.run === state.marked) this.paint(context, curve);
    context.restore();
    this.describe();
    this.drawTop();
  }

  // The values of the shown curves that the axis spans. Few values far above the rest would flatten the others.
  range() {
    const values = this.shown.flatMap((curve) => curve.values).sort((a, b) => a - b);
    if (!values.length) return { low: 0, high: 1, isLog: false };
    const [least, most] = [values[0], values[values.length - 1]];
    const isLog = Boolean(this.metric.canLog && state.isLog && least > 0);
    const usual = values[Math.floor((values.length - 1) * 0.97)];
    const isCut = !isLog && this.metric.canLog && usual > least && most - least > 4 * (usual - least);
    const high = isCut ? least + (usual - least) * 1.25 : most;
    this.beyond = isCut ? values.filter((value) => value > high).length : 0;
    if (this.metric.fromZero) return { low: 0, high: high * 1.06, isLog: false };
    if (this.id === "accuracy") return { low: Math.max(0, least - (most - least) * 0.06), high: Math.min(1, most + (most - least) * 0.06), isLog: false };
    return { low: least, high, isLog };
  }

  layOut(context) {
    const { low, high, isLog } = this.range();
    this.bottom = this.height - PAD.bottom;
    const pad = this.metric.fromZero ? 0 : 7;
    this.y = new Scale(low, high, isLog, this.bottom - pad, PAD.top + 4);
    const count = Math.max(2, (this.bottom - PAD.top) / 46);
    this.ticks = this.shown.length ? (this.metric.isBytes ? byteTicks(this.y, count) : this.y.ticks(count)) : [];
    this.tickText = this.metric.tick || this.metric.text;
    const widest = Math.max(24, ...this.ticks.map((tick) => context.measureText(this.tickText(tick)).width));
    this.left = Math.ceil(widest) + 14;
    this.right = Math.max(this.left + 1, this.width - PAD.right);
    // All charts have one horizontal axis: that of every shown run.
    const places = Object.values(METRICS).flatMap((metric) => metric.curves).filter((curve) => curve.isShown);
    const first = places.reduce((least, { xs }) => Math.min(least, xs[0]), Infinity);
    const last = places.reduce((most, { xs }) => Math.max(most, xs[xs.length - 1]), 0);
    this.x = new Scale(first > last * 0.05 && first < last ? first : 0, Math.max(last, 1e-9), false, this.left + 4, this.right - 4);
  }

  paintAxes(context) {
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const tick of this.ticks) {
      const at = Math.round(this.y.at(tick));
      if (at < PAD.top - 4 || at > this.bottom + 1) continue;
      context.fillStyle = palette.soft;
      context.fillText(this.tickText(tick), this.left - 8, at);
      context.fillStyle = palette.line;
      context.fillRect(this.left, at, this.right - this.left, 1);
    }
    context.fillRect(this.left, this.bottom, this.right - this.left, 1);
    context.textBaseline = "top";
    context.textAlign = "center";
    const ticks = this.x.ticks((this.right - this.left) / 90, state.over === "step");
    const text = state.over === "step" ? formatCount : formatDuration;
    for (const tick of ticks) {
      const half = context.measureText(text(tick)).width / 2;
      const x = this.x.at(tick);
      context.fillStyle = palette.line;
      context.fillRect(Math.round(x), this.bottom, 1, 5);
      context.fillStyle = palette.soft;
      context.fillText(text(tick), Math.max(half, Math.min(this.width - half - 2, x)), this.bottom + 9);
    }
  }

  path(xs, values) {
    const path = new Path2D();
    for (let index = 0; index < xs.length; index += 1) path.lineTo(this.x.at(xs[index]), this.y.clamped(values[index]));
    return path;
  }

  paint(context, curve) {
    const { xs, values, isEvaluation } = curve;
    const isDimmed = state.marked >= 0 && state.marked !== curve.run;
    context.strokeStyle = colorOf(curve.run);
    context.fillStyle = colorOf(curve.run);
    const smoothed = curve.smoothed();
    context.setLineDash(isEvaluation ? [6, 4] : []);
    context.lineWidth = isEvaluation ? 1.8 : 1.5;
    if (smoothed !== values) {
      context.globalAlpha = isDimmed ? 0.06 : 0.22;
      context.stroke(this.path(xs, values));
    }
    context.globalAlpha = isDimmed ? 0.18 : 0.92;
    context.stroke(this.path(xs, smoothed));
    context.setLineDash([]);
    // Few readings are dots too: a single one would not be seen.
    const isSparse = isEvaluation ? xs.length <= 60 : xs.length === 1;
    for (let index = 0; isSparse && index < xs.length; index += 1) {
      context.beginPath();
      context.arc(this.x.at(xs[index]), this.y.clamped(values[index]), 2.6, 0, 7);
      context.fill();
    }
    context.globalAlpha = 1;
  }

  // The marked position and its readings.
  drawTop() {
    const context = this.context(1);
    if (state.at === null || !this.x || !this.shown.length) return;
    context.fillStyle = palette.soft;
    context.fillRect(Math.round(this.x.at(state.at)), PAD.top, 1, this.bottom - PAD.top);
    for (const curve of this.shown.length > MOST_MARKED ? [] : this.shown) {
      const index = curve.nearest(state.at);
      if (index < 0) continue;
      context.beginPath();
      context.arc(this.x.at(curve.xs[index]), this.y.clamped(curve.smoothed()[index]), 3.6, 0, 7);
      context.fillStyle = colorOf(curve.run);
      context.fill();
      context.lineWidth = 1.5;
      context.strokeStyle = palette.card;
      context.stroke();
    }
  }

  // For each shown run at the marked position: the texts of its readings, and how far they are from a height.
  readings(height) {
    const rows = [];
    for (let run = 0; run < COUNT; run += 1) {
      const found = this.shown.filter((curve) => curve.run === run).map((curve) => [curve, curve.nearest(state.at)]);
      const known = found.filter(([, index]) => index >= 0);
      if (!known.length) continue;
      const text = (isEvaluation) => {
        const entry = known.find(([curve]) => curve.isEvaluation === isEvaluation);
        return entry ? this.metric.text(entry[0].smoothed()[entry[1]]) : "";
      };
      const far = known.map(([curve, index]) => Math.abs(this.y.clamped(curve.smoothed()[index]) - height));
      rows.push({ run, training: text(false), evaluation: text(true), far: height === null ? 0 : Math.min(...far) });
    }
    return rows;
  }

  showTip(x, y, height) {
    let rows = this.readings(height);
    if (!rows.length) return tip.hide();
    const nearest = height === null || rows.length < 2 ? null : rows.reduce((best, row) => (row.far < best.far ? row : best));
    const left = rows.length - TIP_ROWS;
    if (left > 0) rows = [...rows].sort((a, b) => a.far - b.far).slice(0, TIP_ROWS).sort((a, b) => a.run - b.run);
    return tip.show(x, y, this, rows, nearest, left);
  }

  // For those who do not see the chart: where each curve begins and ends.
  describe() {
    const part = (curve) => {
      const [from, to] = [curve.values[0], curve.values[curve.values.length - 1]].map(this.metric.text);
      return `${NAMES[curve.run]}${curve.isEvaluation ? ", held-out set" : ""}: from ${from} to ${to}`;
    };
    const title = this.box.closest("section").getAttribute("aria-label");
    this.box.setAttribute("aria-label", `${title} over ${state.over === "step" ? "steps" : "time"}. ${this.shown.map(part).join("; ")}`);
    const beyond = this.beyond ? `${plural(this.beyond, "value is", "values are")} above the axis, and drawn at its edge` : "";
    const hint = this.box.parentElement.querySelector(".hint");
    hint.textContent = beyond;
    hint.hidden = !beyond;
  }
}
