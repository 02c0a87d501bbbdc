// The value of each trial, and the best so far.

const STRIP = 12;

class Progress extends Chart {
  constructor() {
    super("progress");
    this.hasStrip = QUALITY.some((value) => value === null);
  }

  layOut(context) {
    this.layOutValues(context, { bottom: this.hasStrip ? 28 + STRIP + 8 : 26 });
    const { plot } = this;
    const numbers = TRIALS.number;
    this.x = new Scale(COUNT ? numbers[0] : 0, COUNT ? numbers[COUNT - 1] : 1, false, plot.left + 8, plot.right - 8);
    this.strip = plot.bottom + 8;
  }

  paint(context) {
    this.paintValues(context);
    const { plot, x } = this;
    if (this.hasStrip) this.paintStrip(context);
    const bottom = plot.bottom;
    plot.bottom += this.hasStrip ? STRIP + 10 : 0;
    const ticks = COUNT > 1 ? x.ticks(plot.width / 80, true) : [...TRIALS.number];
    this.paintBelow(context, ticks, (tick) => x.at(tick), (tick) => formatCount(tick));
    plot.bottom = bottom;
    this.paintBest(context);
    const radius = dotRadius();
    context.globalAlpha = COUNT > 300 ? 0.7 : 0.9;
    for (const trial of DRAW_ORDER) {
      if (!state.isIn[trial] || !isKnown(QUALITY[trial])) continue;
      this.mark(context, x.at(TRIALS.number[trial]), QUALITY[trial], statusColor(trial), { radius });
    }
    context.globalAlpha = 1;
    if (!RANKED.length) paintEmpty(this, context, COUNT ? "no trial has a value yet" : "no trials yet");
    const none = this.hasStrip ? " · the row below the axis: trials without a value" : "";
    byId("progress-hint").textContent = `by number of the trial · the line is the best complete trial so far${none}${beyondText(countBeyond(this.y))}`;
  }

  // Trials without a value: failed, infeasible, waiting, or just begun.
  paintStrip(context) {
    const { plot, x } = this;
    context.fillStyle = palette.faint;
    context.fillRect(plot.left, this.strip, plot.width, STRIP);
    const wide = Math.max(1, Math.min(4, plot.width / Math.max(1, COUNT) - 1));
    for (let trial = 0; trial < COUNT; trial += 1) {
      if (!state.isIn[trial] || isKnown(QUALITY[trial])) continue;
      context.fillStyle = statusColor(trial);
      context.fillRect(x.at(TRIALS.number[trial]) - wide / 2, this.strip + 1, wide, STRIP - 2);
    }
  }

  paintBest(context) {
    let best = null;
    const { x, y, plot } = this;
    const path = new Path2D();
    for (let trial = 0; trial < COUNT; trial += 1) {
      const value = TRIALS.value[trial];
      if (TRIALS.status[trial] !== COMPLETE || !isKnown(value) || (best !== null && !isBetter(value, best))) continue;
      const at = x.at(TRIALS.number[trial]);
      if (best === null) path.moveTo(at, y.clamped(value));
      else path.lineTo(at, y.clamped(best));
      path.lineTo(at, y.clamped(value));
      best = value;
    }
    if (best === null) return;
    path.lineTo(plot.right, y.clamped(best));
    context.lineWidth = 1.8;
    context.strokeStyle = palette.ink;
    context.stroke(path);
  }

  pixel(trial) {
    const x = this.x.at(TRIALS.number[trial]);
    return isKnown(QUALITY[trial]) ? [x, this.y.clamped(QUALITY[trial])] : [x, this.strip + STRIP / 2];
  }

  nearest(x, y) {
    return this.nearestOf(x, y, (trial) => this.pixel(trial));
  }

  highlight(context, trial, isStrong) {
    const [x, y] = this.pixel(trial);
    if (isKnown(QUALITY[trial])) return this.spot(context, x, QUALITY[trial], statusColor(trial), isStrong);
    context.fillStyle = statusColor(trial);
    context.fillRect(x - 3, y - STRIP / 2 - 1, 6, STRIP + 2);
    context.lineWidth = 1.5;
    context.strokeStyle = palette.ink;
    context.strokeRect(x - 3, y - STRIP / 2 - 1, 6, STRIP + 2);
  }
}
