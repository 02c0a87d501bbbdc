// The table of all trials, and the tip of one.

const AT_FIRST = 50;

const statusSwatch = (trial) => element("i", { class: `swatch s-${STATUSES[TRIALS.status[trial]]}` });

function noteText(trial) {
  const adapted = TRIALS.adapted[trial].map(([key, value]) => `${clean(key)} = ${clean(value)}`);
  const parts = [TRIALS.reason[trial] === null ? "" : clean(TRIALS.reason[trial]), adapted.length ? `adapted: ${adapted.join(", ")}` : ""];
  return parts.filter(Boolean).join(" · ");
}

class Tip {
  constructor() {
    this.box = byId("tip");
    this.trial = -1;
  }

  show(x, y, trial) {
    if (trial !== this.trial) this.fill(trial);
    this.trial = trial;
    this.box.hidden = false;
    placeBeside(this.box, x, y);
  }

  fill(trial) {
    const status = element("span", {}, statusSwatch(trial), `trial ${formatCount(TRIALS.number[trial])}, ${STATUSES[TRIALS.status[trial]]}`);
    const rows = [];
    if (isKnown(QUALITY[trial])) rows.push([METRIC, formatNumber(QUALITY[trial], 5)]);
    if (REACHED[trial] !== null) rows.push(["length", lengthText(REACHED[trial])]);
    for (const parameter of PARAMETERS) {
      const number = parameter.numbers[trial];
      if (number !== null) rows.push([parameter.label, valueText(parameter, number)]);
    }
    if (TRIALS.planned[trial] !== null) rows.push(["planned peak", formatBytes(TRIALS.planned[trial])]);
    if (TRIALS.measured[trial] !== null) rows.push(["peak in use", formatBytes(TRIALS.measured[trial])]);
    if (TRIALS.seconds[trial] !== null) rows.push(["time", formatDuration(TRIALS.seconds[trial])]);
    const list = element("dl", {});
    for (const [name, value] of rows) list.append(element("dt", {}, name), element("dd", {}, value));
    this.box.replaceChildren(element("strong", {}, status), list);
    const note = noteText(trial);
    if (note) this.box.append(element("p", {}, note));
  }

  hide() {
    this.box.hidden = true;
  }
}

// A column: a title, a number or a text to sort by, and the content of a cell.
const number = (title, of, text, more = {}) => ({ title, of, isNumber: true, cell: (trial) => text(of(trial)), ...more });

function columns() {
  const withPeaks = (list) => list.some((peak) => peak !== null);
  const found = [
    { title: "trial", of: (trial) => TRIALS.number[trial], cell: (trial) => element("button", { type: "button" }, formatCount(TRIALS.number[trial])) },
    { title: "status", of: (trial) => TRIALS.status[trial], cell: (trial) => element("span", {}, statusSwatch(trial), STATUSES[TRIALS.status[trial]]) },
    number(METRIC, (trial) => QUALITY[trial], (value) => formatNumber(value, 5), { isValue: true }),
    number(UNIT, (trial) => REACHED[trial], (step) => (step === null ? "–" : formatCount(step))),
  ];
  for (const parameter of PARAMETERS) {
    const isNumber = parameter.kind !== "choice";
    found.push({ title: parameter.label, of: (trial) => parameter.numbers[trial], isNumber, hint: parameter.when === null ? "" : `only with ${clean(parameter.when)}`,
      cell: (trial) => (parameter.numbers[trial] === null ? element("span", { class: "unset" }, "–") : valueText(parameter, parameter.numbers[trial])) });
  }
  const bytes = (peak) => (peak === null ? "–" : formatBytes(peak));
  if (withPeaks(TRIALS.planned)) found.push(number("planned peak", (trial) => TRIALS.planned[trial], bytes));
  if (withPeaks(TRIALS.measured)) found.push(number("peak in use", (trial) => TRIALS.measured[trial], bytes));
  if (withPeaks(TRIALS.seconds)) found.push(number("time", (trial) => TRIALS.seconds[trial], formatDuration));
  const notes = TRIALS.number.map((_, trial) => noteText(trial));
  if (notes.some(Boolean)) found.push({ title: "reason, adapted", isText: true, of: (trial) => notes[trial] || null, cell: (trial) => notes[trial] });
  return found;
}

class Table {
  constructor() {
    this.columns = columns();
    this.count = AT_FIRST;
    // The best first.
    [this.by, this.isDown] = RANKED.length ? [2, !data.minimizes] : [0, false];
    this.rows = new Map();
    this.head = document.querySelector("#table thead");
    this.body = document.querySelector("#table tbody");
    byId("more").addEventListener("click", () => {
      this.count += 200;
      this.fill();
    });
    this.body.addEventListener("pointerover", (pointer) => setHovered(this.trialOf(pointer)));
    this.body.addEventListener("pointerleave", () => setHovered(-1));
    this.body.addEventListener("click", (pointer) => {
      const trial = this.trialOf(pointer);
      if (trial >= 0) choose(trial);
    });
  }

  trialOf(pointer) {
    const row = pointer.target.closest("tr");
    return row ? Number(row.dataset.trial) : -1;
  }

  sortBy(index) {
    const column = this.columns[index];
    const downFirst = column.isValue && !data.minimizes;
    this.isDown = this.by === index ? !this.isDown : downFirst;
    this.by = index;
    this.count = AT_FIRST;
    this.fill();
    this.head.querySelectorAll("button")[index].focus();
  }

  // Trials without a value of the column come last, in either order.
  sorted() {
    const { of } = this.columns[this.by];
    const trials = [...DRAW_ORDER].filter((trial) => state.isIn[trial]);
    const sign = this.isDown ? -1 : 1;
    const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b) : a - b);
    const isUnset = (value) => value === null || Number.isNaN(value);
    const keys = new Map(trials.map((trial) => [trial, of(trial)]));
    return trials.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      if (isUnset(x) || isUnset(y)) return isUnset(x) - isUnset(y) || a - b;
      return sign * compare(x, y) || a - b;
    });
  }

  fill() {
    this.head.replaceChildren(element("tr", {}, ...this.columns.map((column, index) => this.headCell(column, index))));
    const trials = this.sorted();
    this.rows.clear();
    this.body.replaceChildren(...trials.slice(0, this.count).map((trial) => this.row(trial)));
    const rest = trials.length - this.count;
    byId("more").hidden = rest <= 0;
    byId("more").textContent = `show ${formatCount(Math.min(200, rest))} more`;
    const some = trials.length < COUNT ? `${formatCount(trials.length)} of ` : "";
    byId("table-title").textContent = COUNT ? `${some}${plural(COUNT, "trial", "trials")}` : "no trials yet";
  }

  headCell(column, index) {
    const isSorted = index === this.by;
    const arrow = isSorted ? (this.isDown ? " ↓" : " ↑") : "";
    const button = element("button", { type: "button" }, column.title + arrow);
    if (column.hint) button.title = column.hint;
    button.addEventListener("click", () => this.sortBy(index));
    const sort = isSorted ? { "aria-sort": this.isDown ? "descending" : "ascending" } : {};
    return element("th", { scope: "col", ...(column.isNumber ? { class: "number" } : {}), ...sort }, button);
  }

  row(trial) {
    const row = element("tr", { "data-trial": trial });
    for (const { cell, isNumber, isText } of this.columns) {
      row.append(element("td", isNumber ? { class: "number" } : isText ? { class: "text" } : {}, cell(trial)));
    }
    if (trial === data.best) row.classList.add("best");
    if (trial === state.chosen) row.classList.add("chosen");
    this.rows.set(trial, row);
    return row;
  }

  // Moves a mark from one row to another.
  mark(name, before, after) {
    if (this.rows.has(before)) this.rows.get(before).classList.remove(name);
    if (this.rows.has(after)) this.rows.get(after).classList.add(name);
  }
}
