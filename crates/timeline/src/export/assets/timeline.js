// A timeline as typed arrays: bytes by category after each event, and the lifetimes of blocks.

const NEVER = 0xffffffff;

function undelta(deltas) {
  let sum = 0;
  return Float64Array.from(deltas, (delta) => (sum += delta));
}

// A device's track: consecutive spans, and concurrent transfers.
class Track {
  constructor({ names, spans, transfers }) {
    const made = ([kind, name, start, end]) => ({ kind, name: names[name], start, end });
    this.spans = spans.map(made);
    this.transfers = transfers.map(made);
    this.ends = Float64Array.from(this.spans, (span) => span.end);
  }

  // The spans that overlap a window.
  within(spans, [low, high]) {
    const first = above(this.ends, low);
    let last = first;
    while (last < spans.length && spans[last].start < high) last += 1;
    return spans.slice(first, last);
  }

  // The span at a time; between two spans an idle one.
  at(time, [first, last]) {
    const next = above(this.ends, time);
    const span = this.spans[next];
    if (span && span.start <= time) return span;
    const start = next > 0 ? this.ends[next - 1] : first;
    return { kind: data.track_kinds.indexOf("idle"), name: "idle", start, end: span ? span.start : last };
  }
}

class Timeline {
  constructor(data, categories) {
    Object.assign(this, { origin: data.origin, clock: data.clock, limit: data.limit_bytes, end: data.end });
    this.peak = data.peak_event;
    this.names = data.names;
    this.shapes = data.shapes;
    this.times = undelta(data.time_deltas);
    this.events = this.times.length;
    const blocks = data.blocks;
    this.bytes = Float64Array.from(blocks.bytes);
    this.count = this.bytes.length;
    this.category = Uint8Array.from(blocks.category);
    this.phase = blocks.phase;
    this.text = { scope: blocks.scope, operation: blocks.operation, tensor: blocks.tensor, dtype: blocks.dtype };
    this.shape = blocks.shape;
    this.born = Uint32Array.from(undelta(blocks.born_deltas));
    this.died = Uint32Array.from(blocks.lifetime, (life, block) => (life < 0 ? NEVER : this.born[block] + life));
    this.spans = { step: [], phase: [], stage: [] };
    for (const [kind, name, start, end] of data.spans) {
      if (end > start && start < this.events) this.spans[kind].push({ name: this.names[name], start, end });
    }
    this.levels = this.makeLevels(categories.length);
    this.bySize = Uint32Array.from({ length: this.count }, (_, block) => block);
    this.bySize.sort((a, b) => this.bytes[b] - this.bytes[a] || a - b);
  }

  makeLevels(categories) {
    const levels = Array.from({ length: categories }, () => new Float64Array(this.events));
    for (let block = 0; block < this.count; block += 1) {
      const level = levels[this.category[block]];
      level[this.born[block]] += this.bytes[block];
      if (this.died[block] !== NEVER) level[this.died[block]] -= this.bytes[block];
    }
    for (const level of levels) {
      for (let event = 1; event < this.events; event += 1) level[event] += level[event - 1];
    }
    return levels;
  }

  // Bytes in use after each event, over the shown categories.
  totals(shown) {
    const totals = new Float64Array(this.events);
    this.levels.forEach((level, category) => {
      if (shown[category]) for (let event = 0; event < this.events; event += 1) totals[event] += level[event];
    });
    return totals;
  }

  isAlive(block, event) {
    return this.born[block] <= event && this.died[block] > event;
  }

  // Live blocks in the order of birth, in which the chart stacks them.
  alive(event, shown) {
    const found = [];
    for (let block = 0; block < this.count; block += 1) {
      if (this.isAlive(block, event) && shown[this.category[block]]) found.push(block);
    }
    return found;
  }

  name(kind, block) {
    return this.names[this.text[kind][block]] || "";
  }

  title(block) {
    for (const kind of ["tensor", "operation", "scope"]) {
      const name = this.name(kind, block);
      if (name) return name;
    }
    return "";
  }

  shapeOf(block) {
    return (this.shapes[this.shape[block]] || []).join(" × ");
  }

  // The phase of an event.
  phaseAt(event) {
    const found = this.spans.phase.findLast((span) => span.start <= event && event < span.end);
    return found ? found.name : "";
  }

  time(event) {
    return event < this.events ? this.times[event] : this.end;
  }

  formatMoment(event) {
    if (this.clock === "operations") return `operation ${formatCount(this.time(event))}`;
    const since = this.time(event);
    return formatTime(since, Math.max(1, since / 2e4));
  }
}
