// The peak memory of each trial against its value. Trials that do not fit stand above the plot.

const ABOVE = 26;

class Memory extends Chart {
  constructor() {
    super("memory");
    const peaks = PEAK.filter((peak) => peak !== null && peak > 0);
    this.least = peaks.reduce((least, peak) => Math.min(least, peak), Infinity);
    this.most = peaks.reduce((most, peak) => Math.max(most, peak), 0);
    this.hasAbove = TRIALS.status.some((status, trial) => status === INFEASIBLE && PEAK[trial] !== null);
    // A limit far from all peaks would press them together.
    this.isLimitShown = data.limit !== null && this.most > 0 && data.limit <= this.most * 2 && data.limit >= this.least / 2;
    if (this.isLimitShown) this.most = Math.max(this.most, data.limit);
    if (this.isLimitShown) this.least = Math.min(this.least, data.limit);
    this.isLog = this.most > this.least * 16;
  }

  layOut(context) {
    this.layOutValues(context, { top: this.hasAbove ? ABOVE + 8 : 20 });
    const { plot } = this;
    const isKnown = this.most > 0;
    const low = !isKnown ? 0 : this.isLog ? this.least / 1.1 : this.least < this.most * 0.5 ? 0 : this.least - (this.most - this.least) * 0.08;
    const high = isKnown ? (this.isLog ? this.most * 1.15 : this.most + (this.most - low) * 0.04) : 1;
    this.x = new Scale(low, high, this.isLog && isKnown, plot.left + 8, plot.right - 8);
  }

  paint(context) {
    const { plot, x } = this;
    this.paintValues(context);
    if (!this.most) {
      byId("memory-hint").textContent = "";
      return paintEmpty(this, context, COUNT ? "no trial has a planned or measured peak" : "no trials yet");
    }
    this.paintBelow(context, byteTicks(x, Math.max(2, plot.width / 64)), (tick) => x.at(tick), formatTick);
    if (this.hasAbove) this.paintAbove(context);
    this.paintFront(context);
    if (this.isLimitShown) this.paintLimit(context);
    const radius = dotRadius();
    context.globalAlpha = COUNT > 300 ? 0.7 : 0.9;
    for (const trial of DRAW_ORDER) {
      if (!state.isIn[trial] || PEAK[trial] === null) continue;
      if (TRIALS.status[trial] === INFEASIBLE) this.cross(context, x.at(PEAK[trial]), ABOVE / 2 + 2, statusColor(trial));
      else if (isKnown(QUALITY[trial])) {
        const isRing = TRIALS.measured[trial] === null;
        this.mark(context, x.at(PEAK[trial]), QUALITY[trial], statusColor(trial), { radius, isRing });
      }
    }
    context.globalAlpha = 1;
    this.describe();
  }

  describe() {
    const rings = PEAK.some((peak, trial) => peak !== null && TRIALS.measured[trial] === null && isKnown(QUALITY[trial]));
    const parts = [rings ? "discs are measured peaks, rings planned ones" : "measured peaks"];
    parts.push("the line is the best complete trial within that memory");
    if (this.hasAbove) parts.push("crosses: planned peaks of infeasible trials");
    if (data.limit !== null && !this.isLimitShown) parts.push(`the limit of ${formatBytes(data.limit)} is outside the chart`);
    byId("memory-hint").textContent = parts.join(" · ") + beyondText(countBeyond(this.y));
  }

  paintAbove(context) {
    const { plot } = this;
    context.fillStyle = palette.faint;
    context.fillRect(plot.left, 2, plot.width, ABOVE);
    context.fillStyle = palette.soft;
    context.textAlign = "left";
    context.textBaseline = "middle";
    const width = context.measureText("does not fit").width;
    const limit = this.isLimitShown ? this.x.at(data.limit) : Infinity;
    context.fillText("does not fit", limit < plot.left + width + 16 ? limit + 8 : plot.left + 8, ABOVE / 2 + 2);
  }

  paintLimit(context) {
    const { plot } = this;
    const at = Math.round(this.x.at(data.limit));
    context.fillStyle = palette.limit;
    context.fillRect(at - 1, 2, 2, plot.bottom - 2);
    const text = `limit ${formatBytes(data.limit)}`;
    const width = context.measureText(text).width + 14;
    const left = at + width > plot.right ? at - width : at;
    // Away from the best trials.
    const top = data.minimizes ? plot.top + 2 : plot.bottom - 22;
    context.beginPath();
    context.roundRect(left, top, width, 20, 5);
    context.fill();
    context.fillStyle = palette.card;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, left + 7, top + 10.5);
  }

  cross(context, x, y, color, size = 3.2) {
    context.strokeStyle = color;
    context.lineWidth = 1.6;
    context.beginPath();
    context.moveTo(x - size, y - size);
    context.lineTo(x + size, y + size);
    context.moveTo(x + size, y - size);
    context.lineTo(x - size, y + size);
    context.stroke();
  }

  // The best value within each amount of memory.
  paintFront(context) {
    const complete = [...RANKED].filter((trial) => TRIALS.status[trial] === COMPLETE && PEAK[trial] !== null);
    complete.sort((a, b) => PEAK[a] - PEAK[b]);
    let best = null;
    const { x, y, plot } = this;
    const path = new Path2D();
    for (const trial of complete) {
      const value = QUALITY[trial];
      if (best !== null && !isBetter(value, best)) continue;
      if (best === null) path.moveTo(x.at(PEAK[trial]), y.clamped(value));
      else path.lineTo(x.at(PEAK[trial]), y.clamped(best));
      path.lineTo(x.at(PEAK[trial]), y.clamped(value));
      best = value;
    }
    if (best === null) return;
    path.lineTo(this.isLimitShown ? Math.max(x.at(data.limit), x.at(PEAK[last(complete)])) : plot.right, y.clamped(best));
    context.lineWidth = 1.4;
    context.strokeStyle = palette.ink;
    context.stroke(path);
  }

  pixel(trial) {
    if (PEAK[trial] === null) return null;
    const x = this.x.at(PEAK[trial]);
    if (TRIALS.status[trial] === INFEASIBLE) return [x, ABOVE / 2 + 2];
    return isKnown(QUALITY[trial]) ? [x, this.y.clamped(QUALITY[trial])] : null;
  }

  nearest(x, y) {
    return this.most ? this.nearestOf(x, y, (trial) => this.pixel(trial)) : -1;
  }

  highlight(context, trial, isStrong) {
    const at = this.most ? this.pixel(trial) : null;
    if (!at) return;
    if (TRIALS.status[trial] === INFEASIBLE) return this.cross(context, ...at, palette.ink, 5);
    this.spot(context, at[0], QUALITY[trial], statusColor(trial), isStrong);
  }
}
