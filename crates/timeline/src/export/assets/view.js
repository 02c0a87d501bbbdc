// The visible window of the horizontal axis, and the events of each pixel column.

// A step function: a level holds from its position to the next. `xs` has one more entry than events: the end.
class Steps {
  constructor(xs) {
    this.xs = xs;
    this.events = Math.max(0, xs.length - 1);
  }

  // For each of `width` columns the events of the minimum and maximum, so no spike is lost between pixels.
  columns(low, high, width, totals) {
    const least = new Int32Array(width).fill(-1);
    const most = new Int32Array(width).fill(-1);
    const { xs, events } = this;
    const scale = (high - low) / width;
    let event = above(xs, low, events) - 1;
    for (let column = 0; column < width; column += 1) {
      const end = low + (column + 1) * scale;
      if (events === 0 || low + column * scale > xs[events]) break;
      let bottom = event;
      let top = event;
      while (event + 1 < events && xs[event + 1] < end) {
        event += 1;
        if (bottom < 0 || totals[event] < totals[bottom]) bottom = event;
        if (top < 0 || totals[event] > totals[top]) top = event;
      }
      least[column] = bottom;
      most[column] = top;
    }
    return { least, most, width };
  }
}

// Calls `visit(left, right, least, most)` for each run of equal columns.
function runs(columns, visit) {
  const { least, most, width } = columns;
  for (let left = 0; left < width; ) {
    let right = left + 1;
    while (right < width && least[right] === least[left] && most[right] === most[left]) right += 1;
    if (most[left] >= 0) visit(left, right, least[left], most[left]);
    left = right;
  }
}

class View {
  // `range` is the time range of all devices.
  constructor(timeline, range) {
    Object.assign(this, { timeline, range });
    this.setAxis("time");
    this.reset();
  }

  // Switches to the timeline of another device and keeps the window.
  setAxis(kind, timeline = this.timeline) {
    const shown = this.steps && [this.low, this.high].map((x) => this.toTime(x));
    Object.assign(this, { kind, timeline });
    const xs = new Float64Array(timeline.events + 1);
    for (let event = 0; event <= timeline.events; event += 1) xs[event] = kind === "time" ? timeline.time(event) : event;
    this.steps = new Steps(xs);
    [this.first, this.last] = kind === "time" ? this.range : [0, Math.max(1, timeline.events)];
    if (shown) this.show(this.fromTime(shown[0]), this.fromTime(shown[1]));
  }

  // Converts a time to a position on the axis, which may count events.
  fromTime(time) {
    if (this.kind === "time") return time;
    const { times, events, end } = this.timeline;
    const before = above(times, time, events) - 1;
    if (before < 0) return 0;
    const next = before + 1 < events ? times[before + 1] : end;
    return before + (next > times[before] ? Math.min(1, (time - times[before]) / (next - times[before])) : 0);
  }

  toTime(x) {
    if (this.kind === "time") return x;
    const event = Math.max(0, Math.min(this.timeline.events, Math.floor(x)));
    const from = this.timeline.time(event);
    return from + (x - event) * (this.timeline.time(event + 1) - from);
  }

  get span() {
    return this.high - this.low;
  }

  get isWhole() {
    return this.low <= this.first && this.high >= this.last;
  }

  reset() {
    this.show(this.first, this.last);
  }

  // Keeps the window within the timeline, and wider than a few units or a millionth.
  show(low, high) {
    const whole = this.last - this.first;
    const least = Math.min(whole, Math.max(4, whole / 1e6));
    const span = Math.min(whole, Math.max(least, high - low));
    const middle = (low + high) / 2;
    this.low = Math.max(this.first, Math.min(this.last - span, middle - span / 2));
    this.high = this.low + span;
  }

  zoom(factor, at = (this.low + this.high) / 2) {
    const span = Math.max(this.span * factor, Math.min(4, this.last - this.first));
    const low = at - ((at - this.low) / this.span) * span;
    this.show(low, low + span);
  }

  pan(distance) {
    this.show(this.low + distance, this.high + distance);
  }

  // Round positions for at most `count` ticks.
  ticks(count) {
    const rough = this.span / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough) || rough;
    step = Math.max(step, 1);
    const places = [];
    for (let place = Math.ceil(this.low / step) * step; place <= this.high && places.length < 50; place += step) {
      places.push(place);
    }
    return { places, step };
  }

  formatTick(place, step) {
    if (this.kind === "event" || this.timeline.clock === "operations") return formatCount(place);
    return formatTime(place, step);
  }
}
