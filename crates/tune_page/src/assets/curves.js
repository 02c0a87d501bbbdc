// The learning curves of all trials, with the lengths at which they are compared.

class Curves extends Chart {
  constructor() {
    super("curves");
    const steps = TRIALS.steps.flat();
    this.first = steps.reduce((least, step) => Math.min(least, step), Infinity);
    this.last = Math.max(steps.reduce((most, step) => Math.max(most, step), 0), ...data.levels.slice(-1));
    const canLog = this.first > 0 && this.last / this.first >= 8;
    state.isLengthLog = canLog && data.levels.length > 1;
    byId("lengths-switch").hidden = !canLog;
  }

  layOut(context) {
    this.layOutValues(context, { top: data.levels.length ? 26 : 10, range: state.curveRange });
    const { plot } = this;
    const first = Number.isFinite(this.first) ? this.first : 0;
    const low = state.isLengthLog ? first : Math.min(first, 0);
    this.x = new Scale(low, Math.max(this.last, low + 1), state.isLengthLog, plot.left + 8, plot.right - 8);
  }

  paint(context) {
    this.paintValues(context);
    this.paintLevels(context);
    const { x, plot } = this;
    const levels = state.isLengthLog ? data.levels.filter((level) => x.has(level)) : [];
    const ticks = levels.length > 1 ? levels : x.ticks(plot.width / 70, true);
    this.paintBelow(context, ticks, (tick) => x.at(tick), (tick) => formatCount(tick));
    context.lineWidth = 1;
    const shown = state.isIn.reduce((sum, is) => sum + is, 0);
    const alpha = Math.max(0.12, Math.min(0.75, 14 / Math.sqrt(shown * 4 + 1)));
    for (const trial of DRAW_ORDER) {
      if (!state.isIn[trial] || !TRIALS.steps[trial].length) continue;
      const color = statusColor(trial);
      context.globalAlpha = alpha;
      context.strokeStyle = color;
      context.stroke(this.path(trial));
      context.globalAlpha = Math.min(1, alpha * 2);
      const end = TRIALS.steps[trial].length - 1;
      this.mark(context, x.at(TRIALS.steps[trial][end]), TRIALS.curves[trial][end], color, { radius: shown > 300 ? 1.4 : 2.2 });
    }
    context.globalAlpha = 1;
    if (data.best !== null && state.isIn[data.best] && TRIALS.steps[data.best].length) this.line(context, data.best, 2.2);
    const isEmpty = !TRIALS.steps.some((steps) => steps.length);
    if (isEmpty) paintEmpty(this, context, COUNT ? "no trial has reported a value yet" : "no trials yet");
    const compared = data.levels.length ? "dashed: where trials are compared · " : "";
    byId("curves-hint").textContent = `${compared}a dot ends each curve, in the colour of its status · the heavy line is the best trial`;
  }

  paintLevels(context) {
    const { plot, x } = this;
    context.textBaseline = "middle";
    context.textAlign = "center";
    let free = -Infinity;
    for (const level of data.levels) {
      if (!x.has(level)) continue;
      const at = Math.round(x.at(level)) + 0.5;
      context.strokeStyle = palette.soft;
      context.lineWidth = 1;
      context.globalAlpha = 0.6;
      context.setLineDash([3, 4]);
      context.beginPath();
      context.moveTo(at, plot.top);
      context.lineTo(at, plot.bottom);
      context.stroke();
      context.setLineDash([]);
      context.globalAlpha = 1;
      const reached = REACHED.reduce((sum, step) => sum + (step !== null && step >= level), 0);
      const label = plural(reached, "trial", "trials");
      const half = context.measureText(label).width / 2;
      const middle = Math.max(plot.left + half, Math.min(this.width - half - 2, at));
      if (middle - half < free) continue;
      free = middle + half + 8;
      context.fillStyle = palette.soft;
      context.fillText(label, middle, plot.top - 13);
    }
  }

  path(trial) {
    const path = new Path2D();
    const [steps, values] = [TRIALS.steps[trial], TRIALS.curves[trial]];
    for (let index = 0; index < steps.length; index += 1) path.lineTo(this.x.at(steps[index]), this.y.clamped(values[index]));
    return path;
  }

  line(context, trial, width) {
    const path = this.path(trial);
    context.lineWidth = width + 2;
    context.strokeStyle = palette.card;
    context.stroke(path);
    context.lineWidth = width;
    context.strokeStyle = palette.ink;
    context.stroke(path);
  }

  // The curve with a point or a segment near the pointer.
  nearest(x, y) {
    let best = 12 * 12;
    let found = -1;
    for (let trial = 0; trial < COUNT; trial += 1) {
      if (!state.isIn[trial]) continue;
      const [steps, values] = [TRIALS.steps[trial], TRIALS.curves[trial]];
      for (let index = 0; index < steps.length; index += 1) {
        const to = [this.x.at(steps[index]), this.y.clamped(values[index])];
        const from = index ? [this.x.at(steps[index - 1]), this.y.clamped(values[index - 1])] : to;
        if (to[0] < x - 12 || from[0] > x + 12) continue;
        const distance = squaredDistance(x, y, from, to);
        if (distance < best) [best, found] = [distance, trial];
      }
    }
    return found;
  }

  highlight(context, trial, isStrong) {
    const [steps, values] = [TRIALS.steps[trial], TRIALS.curves[trial]];
    if (!steps.length) return;
    this.line(context, trial, isStrong ? 2.2 : 1.6);
    this.spot(context, this.x.at(last(steps)), last(values), statusColor(trial), isStrong);
  }
}

function squaredDistance(x, y, from, to) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const length = dx * dx + dy * dy;
  const along = length ? Math.max(0, Math.min(1, ((x - from[0]) * dx + (y - from[1]) * dy) / length)) : 0;
  return (from[0] + along * dx - x) ** 2 + (from[1] + along * dy - y) ** 2;
}
