// A line per trial through all parameters to its value. Ranges of the axes filter all charts.

const VALUE_AXIS = PARAMETERS.length;

class Parallel extends Chart {
  constructor() {
    super("parallel");
    const numbers = [...PARAMETERS.map((parameter) => parameter.numbers), QUALITY];
    this.hasUnset = numbers.map((list) => list.some((number) => !isKnown(number)));
    this.held = null;
    this.box.addEventListener("pointerdown", (pointer) => this.press(pointer));
    addEventListener("pointermove", (pointer) => this.held && this.drag(pointer));
    addEventListener("pointerup", () => this.release());
    addEventListener("pointercancel", () => (this.held = null));
    byId("parallel-section").hidden = !PARAMETERS.length;
  }

  layOut() {
    const count = PARAMETERS.length + 1;
    this.box.style.minWidth = `${count * 100}px`;
    this.width = this.box.clientWidth;
    const side = Math.max(46, Math.min(90, this.width / count / 2));
    const bottom = this.hasUnset.some(Boolean) ? 40 : 16;
    this.plot = { left: side, right: this.width - side, top: 46, bottom: this.height - bottom };
    Object.assign(this.plot, { width: this.plot.right - side, height: this.plot.bottom - 46 });
    this.unset = this.height - 14;
    const { top, bottom: low } = this.plot;
    this.axes = PARAMETERS.map((parameter) =>
      parameter.kind === "choice"
        ? new Scale(-0.5, Math.max(0, parameter.choices.length - 1) + 0.5, false, low, top)
        : new Scale(parameter.low, parameter.high, parameter.log, low, top));
    const { low: least, high: most, isLog } = state.range;
    this.axes.push(new Scale(least, most, isLog, low, top));
    this.apart = count > 1 ? this.plot.width / (count - 1) : 0;
  }

  axisX(axis) {
    return this.plot.left + axis * this.apart;
  }

  numberOf(axis, trial) {
    return axis === VALUE_AXIS ? QUALITY[trial] : PARAMETERS[axis].numbers[trial];
  }

  // A choice is within a range that its tick is in; other numbers are where they are drawn.
  isWithin(axis, number, low, high) {
    const { low: least, high: most } = this.axes[axis];
    const drawn = Math.max(least, Math.min(most, number));
    return drawn >= low && drawn <= high;
  }

  // Trials of one choice are spread a little, always in the same way.
  yOf(axis, trial) {
    const number = this.numberOf(axis, trial);
    if (!isKnown(number)) return this.unset;
    const scale = this.axes[axis];
    if (axis === VALUE_AXIS || PARAMETERS[axis].kind !== "choice") return scale.clamped(number);
    const space = Math.min(26, this.plot.height / PARAMETERS[axis].choices.length) * 0.6;
    return scale.at(number) + (((TRIALS.number[trial] * 0.618034) % 1) - 0.5) * space;
  }

  path(trial) {
    const path = new Path2D();
    for (let axis = 0; axis <= VALUE_AXIS; axis += 1) path.lineTo(this.axisX(axis), this.yOf(axis, trial));
    return path;
  }

  color(trial) {
    if (!isKnown(QUALITY[trial])) return palette.soft;
    const { low, high } = this.axes[VALUE_AXIS];
    const scale = new Scale(low, high, state.range.isLog, data.minimizes ? 0 : 1, data.minimizes ? 1 : 0);
    return rampColor(scale.clamped(QUALITY[trial]));
  }

  paint(context) {
    const shown = state.isIn.reduce((sum, is) => sum + is, 0);
    context.lineWidth = shown > 500 ? 0.8 : 1.2;
    const alpha = Math.max(0.16, Math.min(0.85, 10 / Math.sqrt(shown * 1.5 + 1)));
    if (shown < COUNT) this.paintOthers(context);
    const worstFirst = [...RANKED].reverse();
    const valueless = DRAW_ORDER.filter((trial) => !isKnown(QUALITY[trial]));
    for (const [order, strength] of [[valueless, 0.45], [worstFirst, 1]]) {
      context.globalAlpha = alpha * strength;
      for (const trial of order) {
        if (!state.isIn[trial]) continue;
        context.strokeStyle = this.color(trial);
        context.stroke(this.path(trial));
      }
    }
    context.globalAlpha = 1;
    for (let axis = 0; axis <= VALUE_AXIS; axis += 1) this.paintAxis(context, axis);
    this.paintRamp();
  }

  // What is filtered out stays faintly visible.
  paintOthers(context) {
    context.strokeStyle = palette.line;
    context.globalAlpha = COUNT > 500 ? 0.25 : 0.6;
    for (let trial = 0; trial < COUNT; trial += 1) {
      if (!state.isIn[trial] && state.isStatusShown[TRIALS.status[trial]]) context.stroke(this.path(trial));
    }
  }

  paintAxis(context, axis) {
    const x = Math.round(this.axisX(axis));
    const { top, bottom } = this.plot;
    context.fillStyle = palette.soft;
    context.fillRect(x, top, 1, bottom - top);
    this.paintTitle(context, axis, x);
    const scale = this.axes[axis];
    const parameter = PARAMETERS[axis];
    const isRight = axis === VALUE_AXIS;
    context.textBaseline = "middle";
    context.textAlign = "left";
    const label = (text, y, alpha = 1) => {
      const shown = fitted(context, text, Math.max(30, (isRight ? this.width - x : this.apart) - 14));
      context.lineWidth = 3.5;
      context.strokeStyle = palette.card;
      context.globalAlpha = 0.8;
      context.strokeText(shown, x + 8, y);
      context.globalAlpha = alpha;
      context.fillStyle = palette.ink;
      context.fillText(shown, x + 8, y);
      context.globalAlpha = 1;
    };
    const mark = (y) => {
      context.fillStyle = palette.soft;
      context.fillRect(x - 3, Math.round(y), 7, 1);
    };
    if (this.hasUnset[axis]) {
      context.fillStyle = palette.soft;
      context.beginPath();
      context.arc(x + 0.5, this.unset, 2.5, 0, 7);
      context.fill();
      label(isRight ? "no value" : "not set", this.unset, 0.65);
    }
    if (parameter && parameter.kind === "choice") {
      const every = Math.ceil(parameter.choices.length / Math.max(1, (bottom - top) / 16));
      parameter.choices.forEach((choice, index) => {
        mark(scale.at(index));
        if (index % every === 0) label(clean(choice), scale.at(index));
      });
    } else {
      for (const tick of this.ticksOf(scale, parameter)) {
        mark(scale.at(tick));
        label(formatNumber(tick), scale.at(tick));
      }
    }
    this.paintRange(context, axis, x);
  }

  // Round numbers between both ends, which are the bounds of a parameter.
  ticksOf(scale, parameter) {
    if (!parameter) return RANKED.length ? scale.ticks(6) : [];
    const isBinary = parameter.log && parameter.kind === "integer" && Number.isInteger(Math.log2(parameter.low));
    const ticks = isBinary ? byteTicks(scale, 8) : scale.ticks(6, parameter.kind === "integer");
    const ends = parameter.high > parameter.low ? [parameter.low, parameter.high] : [parameter.low];
    return [...ends, ...ticks.filter((tick) => ends.every((end) => Math.abs(scale.at(end) - scale.at(tick)) > 15))];
  }

  paintTitle(context, axis, x) {
    const name = axis === VALUE_AXIS ? METRIC : PARAMETERS[axis].label;
    const parts = axis === VALUE_AXIS ? [name] : name.split(".");
    const space = Math.max(60, this.apart) - 10;
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    context.font = `12px ${palette.family}`;
    context.fillStyle = palette.soft;
    if (parts.length > 1) context.fillText(fitted(context, parts.slice(0, -1).join("."), space), x, 14);
    context.font = `600 13px ${palette.family}`;
    context.fillStyle = palette.ink;
    context.fillText(fitted(context, parts[parts.length - 1], space), x, 31);
    context.font = `12px ${palette.family}`;
  }

  paintRange(context, axis, x) {
    const range = state.brushes.get(axis);
    if (!range) return;
    const [from, to] = range.map((value) => this.axes[axis].at(value)).sort((a, b) => a - b);
    context.fillStyle = palette.c0;
    context.globalAlpha = 0.28;
    context.fillRect(x - 9, from, 19, to - from);
    context.globalAlpha = 1;
    context.lineWidth = 1.5;
    context.strokeStyle = palette.c0;
    context.strokeRect(x - 9, from, 19, to - from);
  }

  paintRamp() {
    const ramp = byId("ramp");
    const { low, high } = state.range;
    const [best, worst] = data.minimizes ? [low, high] : [high, low];
    ramp.hidden = !(high > low) || !RANKED.length;
    ramp.children[0].textContent = `best ${formatNumber(best)}`;
    ramp.children[2].textContent = state.range.isCut ? `${formatNumber(worst)} or worse` : formatNumber(worst);
    ramp.children[1].style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(rampColor).join(", ")})`;
  }

  axisNear(x, reach) {
    const axis = this.apart ? Math.round((x - this.plot.left) / this.apart) : 0;
    return axis >= 0 && axis <= VALUE_AXIS && Math.abs(this.axisX(axis) - x) <= reach ? axis : -1;
  }

  press(pointer) {
    const [x, y] = this.place(pointer);
    const axis = this.axisNear(x, 16);
    if (axis < 0 || y < this.plot.top - 8 || pointer.button > 0 || pointer.pointerType === "touch") return;
    pointer.preventDefault();
    this.held = { axis, from: y, isMoved: false };
  }

  drag(pointer) {
    const y = this.place(pointer)[1];
    const { axis, from } = this.held;
    if (Math.abs(y - from) > 4) this.held.isMoved = true;
    if (!this.held.isMoved) return;
    const { top, bottom } = this.plot;
    const within = (y) => Math.max(top - 1, Math.min(bottom + 1, y));
    const values = [from, y].map((y) => this.axes[axis].value(within(y))).sort((a, b) => a - b);
    brush(axis, values);
  }

  release() {
    this.wasDragged = Boolean(this.held && this.held.isMoved);
    this.held = null;
  }

  click(x, y) {
    if (this.wasDragged) return (this.wasDragged = false);
    const axis = this.axisNear(x, 10);
    if (axis >= 0 && state.brushes.has(axis)) return brush(axis, null);
    const trial = this.nearest(x, y);
    if (trial >= 0) choose(trial);
  }

  hover(pointer) {
    if (this.held) return setHovered(-1);
    this.box.style.cursor = this.axisNear(this.place(pointer)[0], 16) >= 0 ? "ns-resize" : "default";
    super.hover(pointer);
  }

  nearest(x, y) {
    if (!this.apart) return -1;
    const left = Math.max(0, Math.min(VALUE_AXIS - 1, Math.floor((x - this.plot.left) / this.apart)));
    const [from, to] = [this.axisX(left), this.axisX(left + 1)];
    let best = 8 * 8;
    let found = -1;
    // Better trials are drawn above others, and are found first.
    const look = (trial) => {
      if (!state.isIn[trial]) return;
      const distance = squaredDistance(x, y, [from, this.yOf(left, trial)], [to, this.yOf(left + 1, trial)]);
      if (distance < best - 0.5) [best, found] = [distance, trial];
    };
    RANKED.forEach(look);
    for (let trial = 0; trial < COUNT; trial += 1) if (!isKnown(QUALITY[trial])) look(trial);
    return found;
  }

  highlight(context, trial, isStrong) {
    const path = this.path(trial);
    context.lineWidth = isStrong ? 6 : 5;
    context.strokeStyle = palette.card;
    context.stroke(path);
    context.lineWidth = isStrong ? 3.2 : 2.4;
    context.strokeStyle = palette.ink;
    context.stroke(path);
    context.lineWidth = isStrong ? 1.6 : 1;
    context.strokeStyle = this.color(trial);
    context.stroke(path);
  }
}

// A text shortened to a width.
function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}
