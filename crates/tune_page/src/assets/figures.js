// Formats what `format.js` does not: values, durations, and texts of the study.

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

// A string of TOML: that of JSON, with the characters that nobody would see escaped.
function quoted(text) {
  return JSON.stringify(text).replace(UNPRINTABLE, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const keyOf = (name) => name.split(".").map((part) => (/^[\w-]+$/.test(part) ? part : quoted(part))).join(".");

// A value in TOML. A float stays a float.
function tomlOf(value, isFloat) {
  if (typeof value === "string") return quoted(value);
  const short = Number.isInteger(value) ? "" : value.toExponential?.() ?? "";
  const text = short && Math.abs(value) < 1e-3 && short.length < String(value).length ? short : String(value);
  return isFloat && /^-?\d+$/.test(text) ? `${text}.0` : text;
}

// [["optimizer.lr", "0.1"], …] by table.
function tomlText(pairs) {
  const tables = new Map();
  for (const [name, value] of pairs) {
    const parts = name.split(".");
    const table = parts.slice(0, -1).join(".");
    if (!tables.has(table)) tables.set(table, []);
    tables.get(table).push(`${keyOf(parts[parts.length - 1])} = ${value}`);
  }
  const names = [...tables.keys()].sort((a, b) => (a === "" ? -1 : b === "" ? 1 : 0));
  return names.map((name) => [...(name === "" ? [] : [`[${keyOf(name)}]`]), ...tables.get(name)].join("\n")).join("\n\n");
}

// Words of a shell: what could mean something to one is quoted. A word that is not TOML is a string.
function flagsText(pairs) {
  const flag = ([name, value]) => {
    const bare = /^"[A-Za-z_][\w-]*"$/.test(value) && !/^"(true|false|inf|nan)"$/.test(value) ? value.slice(1, -1) : value;
    const word = `${keyOf(name)}=${bare}`;
    return `--set ${/^[\w.=+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`}`;
  };
  return pairs.map(flag).join(" \\\n");
}
