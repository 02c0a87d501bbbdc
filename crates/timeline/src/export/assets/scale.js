// Axes: numbers to pixels, and round ticks.

class Scale {
  // `from` and `to` are pixels of `low` and `high`.
  constructor(low, high, isLog, from, to) {
    Object.assign(this, { isLog, from, to });
    const widen = (low, high) => (high > low ? [low, high] : [low - (Math.abs(low) * 0.1 || 0.5), high + (Math.abs(high) * 0.1 || 0.5)]);
    [this.low, this.high] = isLog && !(high > low) ? [low / 2, high * 2] : widen(low, high);
    this.a = this.of(this.low);
    this.span = this.of(this.high) - this.a;
  }

  of(value) {
    return this.isLog ? Math.log(Math.max(value, 1e-300)) : value;
  }

  at(value) {
    return this.from + ((this.of(value) - this.a) / this.span) * (this.to - this.from);
  }

  // The same, kept between the ends.
  clamped(value) {
    return this.at(Math.max(this.low, Math.min(this.high, value)));
  }

  has(value) {
    return value >= this.low && value <= this.high;
  }

  value(pixel) {
    const place = this.a + ((pixel - this.from) / (this.to - this.from)) * this.span;
    return this.isLog ? Math.exp(place) : place;
  }

  // About `count` round numbers.
  ticks(count, isInteger = false) {
    const found = this.isLog ? this.logTicks(count) : [];
    if (found.length >= 2) return found;
    const rough = (this.high - this.low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999);
    if (isInteger) step = Math.max(1, step);
    const ticks = [];
    for (let index = Math.ceil(this.low / step - 1e-9); index * step <= this.high + step * 1e-9 && ticks.length < 40; index += 1) {
      ticks.push(Number((index * step).toPrecision(12)));
    }
    return ticks;
  }

  // Powers of ten, with 2 and 5 between them where they have space.
  logTicks(count) {
    const decades = this.span / Math.LN10;
    const every = Math.max(1, Math.ceil(decades / Math.max(1, count)));
    const factors = decades * 3 <= count ? [1, 2, 5] : decades * 2 <= count ? [1, 3] : [1];
    const ticks = [];
    const first = Math.floor(Math.log10(this.low));
    for (let power = first; power <= Math.log10(this.high) + 1e-9; power += 1) {
      if (factors.length === 1 && (power - first) % every) continue;
      for (const factor of factors) {
        const tick = Number(`${factor}e${power}`);
        if (tick >= this.low * 0.999999 && tick <= this.high * 1.000001) ticks.push(tick);
      }
    }
    return ticks;
  }
}

// Round in binary units, for bytes.
function byteTicks(scale, count) {
  const ticks = [];
  if (scale.isLog) {
    const every = Math.max(1, Math.ceil(scale.span / Math.LN2 / count));
    for (let power = Math.ceil(Math.log2(scale.low) - 1e-9); 2 ** power <= scale.high * 1.0001; power += every) ticks.push(2 ** power);
    return ticks;
  }
  const step = 2 ** Math.ceil(Math.log2((scale.high - scale.low) / Math.max(1, count)));
  for (let tick = Math.ceil(scale.low / step) * step; tick <= scale.high && ticks.length < 40; tick += step) ticks.push(tick);
  return ticks;
}
