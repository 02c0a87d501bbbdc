// Formats what `format.js` does not: values, durations, and texts of the data.

const trimmed = (digits) => (digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits);

// Four significant digits: 0.1234, 12.5, 3.12e−5.
function formatNumber(value, digits = 4) {
  if (value === null || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-4 || size >= 1e6) {
    const [head, exponent] = value.toExponential(Math.max(0, digits - 2)).split("e");
    return `${trimmed(head)}e${Number(exponent)}`.replaceAll("-", "−");
  }
  const decimals = Math.max(0, Math.min(8, digits - 1 - Math.floor(Math.log10(size))));
  return trimmed(value.toFixed(decimals)).replace("-", "−");
}

function formatDuration(seconds) {
  if (seconds === null) return "–";
  if (seconds >= 5400) return `${(seconds / 3600).toFixed(1)} h`;
  if (seconds >= 90) return `${(seconds / 60).toFixed(1)} min`;
  return `${seconds < 10 ? seconds.toFixed(1) : seconds.toFixed(0)} s`;
}

// Characters that a browser does not show or that reorder text, as the crate `oomph-core` knows them.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

const clean = (text) => String(text).replace(UNPRINTABLE, "\ufffd");

const plural = (count, one, many) => `${formatCount(count)} ${count === 1 ? one : many}`;
