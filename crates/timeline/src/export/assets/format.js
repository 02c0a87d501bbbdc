// Formats figures, makes elements, and asks for frames. Text from the data is never parsed as HTML.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// Three significant digits, as the rest of oomph writes them: 1.50 GiB.
function formatBytes(count) {
  let unit = 0;
  let value = count;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  if (unit === 0) return `${value} B`;
  const decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(decimals)} ${UNITS[unit]}`;
}

// For an axis, whose ticks are round: 1.5 GiB, 64 MiB.
function formatTick(count) {
  return formatBytes(count).replace(/\.(\d*?)0+ /, (_, digits) => (digits ? `.${digits} ` : " "));
}

function formatCount(count) {
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

const TIME_UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

// Nanoseconds, with enough digits to distinguish moments that are `step` apart.
function formatTime(nanoseconds, step) {
  const size = Math.max(Math.abs(nanoseconds), step);
  const [factor, unit] = TIME_UNITS.find(([factor]) => size >= factor) || TIME_UNITS[3];
  const decimals = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / factor) - 1e-9)));
  return `${(nanoseconds / factor).toFixed(decimals)} ${unit}`;
}

function formatPercent(part, whole) {
  if (!(whole > 0)) return "";
  const percent = (part / whole) * 100;
  return `${percent >= 10 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

// element("td", { class: "number" }, "text", otherElement)
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const swatch = (category) => element("i", { class: `swatch c${category}` });
const byId = (id) => document.getElementById(id);

// The first index in a rising array whose value is above `value`.
function above(values, value, length = values.length) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Draws in the next frame, once however often it is asked for.
class Frame {
  constructor(draw) {
    Object.assign(this, { draw, isRequested: false });
  }

  request() {
    if (this.isRequested) return;
    this.isRequested = true;
    requestAnimationFrame(() => {
      this.isRequested = false;
      this.draw();
    });
  }
}
