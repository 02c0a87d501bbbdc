// The tip, the controls, and when charts are drawn.

class Tip {
  constructor() {
    this.box = byId("tip");
  }

  show(x, y, chart, rows, nearest, left) {
    const hasBoth = rows.some((row) => row.training) && rows.some((row) => row.evaluation);
    const cells = (row) => [row.training, row.evaluation].filter((text, index) => hasBoth || (index ? !row.training : row.training));
    const row = (row) =>
      element("tr", row === nearest ? { class: "near" } : {},
        element("td", {}, element("span", {}, element("i", { class: `swatch r${row.run % COLOURS}` }), NAMES[row.run])),
        ...cells(row).map((text) => element("td", { class: "number" }, text || "–")));
    const heads = hasBoth ? [element("tr", {}, element("th", {}), element("th", { class: "number" }, "training"), element("th", { class: "number" }, "held-out"))] : [];
    this.box.replaceChildren(element("strong", {}, atText(state.at)), element("table", {}, ...heads, ...rows.map(row)));
    if (left > 0) this.box.append(element("p", {}, `${formatCount(left)} more ${left === 1 ? "run" : "runs"}, farther from the pointer`));
    this.box.hidden = false;
    placeBeside(this.box, x, y);
  }

  hide() {
    this.box.hidden = true;
  }
}

const tip = new Tip();
for (const [id, metric] of Object.entries(METRICS)) new Chart(id, metric);

// Marks a position on the horizontal axis in all charts, or none.
function mark(at) {
  if (at === null) tip.hide();
  if (at === state.at) return;
  state.at = at;
  for (const chart of charts) if (chart.x && chart.box.clientWidth) chart.drawTop();
}

const losses = METRICS.loss.curves.flatMap((curve) => curve.values);
const least = losses.reduce((least, value) => Math.min(least, value), Infinity);
const most = losses.reduce((most, value) => Math.max(most, value), -Infinity);
byId("values").parentElement.hidden = !(least > 0 && most > least * 5);

byId("runs").addEventListener("click", (click) => {
  const chip = click.target.closest("button");
  if (!chip) return;
  const run = Number(chip.dataset.run);
  state.isShown[run] = !state.isShown[run];
  chip.setAttribute("aria-pressed", state.isShown[run]);
  redraw();
});
// A run whose button is under the pointer, or has the focus, stands out.
function stand(event) {
  const chip = event.target.closest("button");
  state.marked = chip && event.type !== "pointerout" && event.type !== "focusout" && COUNT > 1 ? Number(chip.dataset.run) : -1;
  redraw();
}
for (const type of ["pointerover", "pointerout", "focusin", "focusout"]) byId("runs").addEventListener(type, stand);
document.querySelector(".filters").hidden = !COUNT;
byId("charts").hidden = !COUNT;
// A chart without a neighbour is as wide as two.
const sections = [...byId("charts").children].filter((section) => !section.hidden);
if (sections.length % 2) sections[sections.length - 1].classList.add("last");

choice("over", state.over, (value) => {
  state.over = value;
  mark(null);
  redraw();
});
choice("values", "linear", (value) => {
  state.isLog = value === "log";
  redraw();
});
choice("smoothing", "0", (value) => {
  state.smoothing = Number(value);
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  palette = readPalette();
  redraw();
});

drawAll();
// Since the page began to load.
document.body.dataset.drawnMs = performance.now().toFixed(0);
