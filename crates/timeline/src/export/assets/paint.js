// The pixels of the areas. Levels are steps, so all edges are horizontal or vertical: areas are filled column by column.

const SHADES = 4;
// The most blocks drawn individually in a window. Others, and blocks thinner than half a pixel, share one band.
const MOST_BLOCKS = 8000;

const parseColor = (hex) => [1, 3, 5].map((at) => parseInt(hex.trim().slice(at, at + 2), 16));
const mix = (from, to, part) => from.map((value, at) => Math.round(value + (to[at] - value) * part));
// A colour as a number in the byte order of image data: opaque, blue, green, red.
const pack = ([red, green, blue]) => (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;

// The colours of the style sheet, which alone knows light and dark.
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const css = (name) => style.getPropertyValue(`--${name}`).trim();
  const card = parseColor(css("card"));
  const ink = parseColor(css("ink"));
  const colors = Array.from({ length: 7 }, (_, category) => parseColor(css(`c${category}`)));
  const shadesOf = (color) => Array.from({ length: SHADES }, (_, shade) => mix(color, shade % 2 ? ink : card, [0, 0.16, 0.24, 0.3][shade]));
  const faded = (color) => mix(color, card, 0.62);
  const shades = colors.map(shadesOf);
  return {
    css,
    full: colors.map(pack),
    light: colors.map((color) => pack(faded(color))),
    shades: shades.map((list) => list.map(pack)),
    lightShades: shades.map((list) => list.map((color) => pack(faded(color)))),
    edge: pack(mix(card, ink, 0.12)),
    small: pack(mix(card, ink, 0.3)),
    lightSmall: pack(mix(card, ink, 0.14)),
  };
}

class Raster {
  constructor(width, height, background) {
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.pixels.fill(pack(parseColor(background)));
    Object.assign(this, { width, height });
  }

  fill(left, right, top, bottom, color) {
    const { pixels, width } = this;
    for (let row = Math.max(0, top) * width, end = bottom * width; row < end; row += width) {
      // Most runs are a few pixels wide: calling `fill` would cost more than a loop.
      if (right - left > 16) pixels.fill(color, row + left, row + right);
      else for (let pixel = row + left; pixel < row + right; pixel += 1) pixels[pixel] = color;
    }
  }
}

// Areas by category. If the level varies within a column, the part above its minimum is pale.
function paintCategories(raster, columns, scene) {
  const { levels, shown, palette, yOf } = scene;
  const stack = (left, right, event, colors) => {
    let bottom = raster.height;
    let sum = 0;
    for (let category = 0; category < levels.length; category += 1) {
      if (!shown[category]) continue;
      sum += levels[category][event];
      const top = yOf(sum);
      if (top < bottom) raster.fill(left, right, top, bottom, colors[category]);
      bottom = top;
    }
  };
  runs(columns, (left, right, least, most) => {
    if (most !== least) stack(left, right, most, palette.light);
    if (least >= 0) stack(left, right, least, palette.full);
  });
}

// The largest blocks alive in a window of events, of at least `smallest` bytes: those drawn individually.
function largestBlocks(timeline, first, last, smallest) {
  const drawn = new Uint8Array(timeline.count);
  let count = 0;
  for (const block of timeline.bySize) {
    if (timeline.bytes[block] < smallest || count === MOST_BLOCKS) break;
    if (timeline.born[block] > last || timeline.died[block] <= first) continue;
    drawn[block] = 1;
    count += 1;
  }
  return drawn;
}

// The drawn blocks that are alive. Events are visited in rising order.
class Sweep {
  constructor(timeline, drawn, shown) {
    this.timeline = timeline;
    this.births = [];
    for (let block = 0; block < timeline.count; block += 1) {
      if (drawn[block] && shown[timeline.category[block]]) this.births.push(block);
    }
    this.deaths = this.births.filter((block) => timeline.died[block] !== NEVER);
    this.deaths.sort((a, b) => timeline.died[a] - timeline.died[b]);
    this.live = null;
  }

  to(event) {
    const { births, deaths, timeline } = this;
    const { born, died } = timeline;
    if (this.live === null) {
      this.live = births.filter((block) => timeline.isAlive(block, event));
      this.birth = births.findIndex((block) => born[block] > event);
      if (this.birth < 0) this.birth = births.length;
      this.death = deaths.findIndex((block) => died[block] > event);
      if (this.death < 0) this.death = deaths.length;
      return this.live;
    }
    const { live } = this;
    while (this.birth < births.length && born[births[this.birth]] <= event) live.push(births[this.birth++]);
    while (this.death < deaths.length && died[deaths[this.death]] <= event) {
      const at = above(live, deaths[this.death++]) - 1;
      live.splice(at, 1);
    }
    return live;
  }
}

// Each block is a band above those born before it. When one dies, those above sink.
function paintBlocks(raster, columns, scene) {
  const { timeline, totals, drawn, shown, palette, yOf } = scene;
  const { bytes, category } = timeline;
  const sweep = new Sweep(timeline, drawn, shown);
  const paint = (left, right, event, floor, shades, small) => {
    let bottom = raster.height;
    let sum = 0;
    for (const block of sweep.to(event)) {
      sum += bytes[block];
      const top = yOf(sum);
      const until = Math.min(bottom, floor);
      if (top < until) {
        raster.fill(left, right, top, until, shades[category[block]][block % SHADES]);
        if (until - top >= 4) raster.fill(left, right, top, top + 1, palette.edge);
      }
      bottom = top;
    }
    const top = yOf(totals[event]);
    if (top < Math.min(bottom, floor)) raster.fill(left, right, top, Math.min(bottom, floor), small);
  };
  runs(columns, (left, right, least, most) => {
    const paintLeast = () => least >= 0 && paint(left, right, least, raster.height, palette.shades, palette.small);
    const paintMost = () => paint(left, right, most, yOf(least < 0 ? 0 : totals[least]), palette.lightShades, palette.lightSmall);
    if (least === most) paintLeast();
    else if (least < most) [paintLeast, paintMost].forEach((step) => step());
    else [paintMost, paintLeast].forEach((step) => step());
  });
}

// The bytes below a block over its lifetime. They only fall, when a block below dies.
class BlockBand {
  constructor(scene, block) {
    const { timeline, mode, drawn, shown, levels } = scene;
    const { born, died, bytes, category } = timeline;
    Object.assign(this, { timeline, block, mode, shown, levels });
    const from = born[block];
    let sum = 0;
    const deaths = [];
    for (let other = 0; other < block; other += 1) {
      const isBelow = mode === "block" ? drawn[other] && shown[category[other]] : category[other] === category[block];
      if (!isBelow || !timeline.isAlive(other, from)) continue;
      sum += bytes[other];
      if (died[other] < died[block]) deaths.push(other);
    }
    deaths.sort((a, b) => died[a] - died[b]);
    this.from = [from];
    this.below = [sum];
    for (const other of deaths) {
      sum -= bytes[other];
      this.from.push(died[other]);
      this.below.push(sum);
    }
  }

  // The bytes below the block after an event of its lifetime.
  at(event) {
    let below = this.below[above(this.from, event) - 1];
    if (this.mode === "category") {
      const own = this.timeline.category[this.block];
      for (let category = 0; category < own; category += 1) if (this.shown[category]) below += this.levels[category][event];
    }
    return below;
  }

  // The event that a column shows the block at, or -1 outside its lifetime.
  eventOf(least, most) {
    if (least >= 0 && this.timeline.isAlive(this.block, least)) return least;
    return most >= 0 && this.timeline.isAlive(this.block, most) ? most : -1;
  }
}

// The block that `amount` bytes above the axis belongs to after `event`: { block }, { small } or null.
function blockAt(scene, event, amount) {
  const { timeline, mode, drawn, shown, levels, totals } = scene;
  if (event < 0 || amount < 0 || amount >= totals[event]) return null;
  const alive = timeline.alive(event, shown);
  let sum = 0;
  if (mode === "category") {
    const category = levels.findIndex((level, category) => shown[category] && (sum += level[event]) > amount);
    if (category < 0) return null;
    sum -= levels[category][event];
    for (const block of alive) {
      if (timeline.category[block] !== category) continue;
      sum += timeline.bytes[block];
      if (sum > amount) return { block };
    }
    return null;
  }
  for (const block of alive) {
    if (!drawn[block]) continue;
    sum += timeline.bytes[block];
    if (sum > amount) return { block };
  }
  return { small: alive.filter((block) => !drawn[block]).length, bytes: totals[event] - sum };
}
