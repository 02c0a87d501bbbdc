// Texts of the study: values in TOML, and words of a shell.

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
