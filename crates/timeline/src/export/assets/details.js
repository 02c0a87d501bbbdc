// Text about blocks and moments: the tooltip, the legend and the table.

const AT_FIRST = 20;

function titleOf(timeline, block) {
  return timeline.title(block) || `${CATEGORIES[timeline.category[block]]}, nameless`;
}

function rowsOf(timeline, block) {
  const category = timeline.category[block];
  const type = [timeline.shapeOf(block), timeline.name("dtype", block)].filter(Boolean).join(" · ");
  const since = timeline.formatMoment(timeline.born[block]);
  const birth = timeline.born[block] === 0 ? "there from the start" : `${since}, ${PHASES[timeline.phase[block]]}`;
  const end = timeline.died[block];
  const phase = end === NEVER ? "" : timeline.phaseAt(end);
  const death = end === NEVER ? "lives on" : timeline.formatMoment(end) + (phase ? `, ${phase}` : "");
  return [
    ["size", `${formatBytes(timeline.bytes[block])}`],
    ["category", element("span", {}, swatch(category), CATEGORIES[category])],
    ["layer", timeline.name("scope", block)],
    ["operation", timeline.name("operation", block)],
    ["tensor", timeline.name("tensor", block)],
    ["shape", type],
    ["born", birth],
    ["died", death],
  ].filter(([, value]) => value !== "");
}

// Of a block whose operation nobody recorded: its phase and scope.
function madeIn(timeline, block) {
  const scope = timeline.name("scope", block);
  return scope ? `${PHASES[timeline.phase[block]]} of ${scope}` : PHASES[timeline.phase[block]];
}

class Tip {
  constructor() {
    this.box = byId("tip");
  }

  show(x, y, title, rows, foot) {
    const list = element("dl", {});
    for (const [name, value] of rows) list.append(element("dt", {}, name), element("dd", {}, value));
    this.box.replaceChildren(element("strong", {}, title), list);
    if (foot) this.box.append(element("p", {}, foot));
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = x + 18 + width > innerWidth - 8 ? x - 18 - width : x + 18;
    const top = Math.min(y + 14, innerHeight - height - 8);
    this.box.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, top)}px)`;
  }

  hide() {
    this.box.hidden = true;
  }
}

const verbOf = (timeline) => (timeline.origin === "planned" ? "planned" : "in use");

// "at the peak · 272 MiB in use · 12.3 ms, backward"
function describeMoment(timeline, event) {
  const total = timeline.levels.reduce((sum, level) => sum + (level[event] || 0), 0);
  const phase = timeline.phaseAt(event);
  const where = event === timeline.peak ? "at the peak" : "at the chosen moment";
  return `${where} · ${formatBytes(total)} ${verbOf(timeline)} · ${timeline.formatMoment(event)}${phase ? `, ${phase}` : ""}`;
}

function fillLegend(timeline, event, shown, toggle) {
  const amounts = timeline.levels.map((level) => level[event] || 0);
  const total = amounts.reduce((sum, amount) => sum + amount, 0);
  const list = byId("legend");
  const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  list.replaceChildren(
    ...CATEGORIES.map((name, category) => {
      const button = element("button", { type: "button", "aria-pressed": shown[category], "data-category": category },
        swatch(category), element("span", {}, name),
        element("b", {}, formatBytes(amounts[category]), element("small", {}, formatPercent(amounts[category], total))));
      button.addEventListener("click", () => toggle(category));
      return element("li", {}, button);
    }),
  );
  if (focused >= 0) list.querySelectorAll("button")[focused].focus();
}

class Table {
  constructor(timeline, choose) {
    Object.assign(this, { timeline, choose, count: AT_FIRST, event: -1 });
    byId("more").addEventListener("click", () => {
      this.count += 200;
      this.fill(this.event, this.chosen);
    });
  }

  fill(event, chosen) {
    const { timeline } = this;
    if (event !== this.event) this.count = AT_FIRST;
    Object.assign(this, { event, chosen });
    const alive = timeline.alive(event, CATEGORIES.map(() => true));
    alive.sort((a, b) => timeline.bytes[b] - timeline.bytes[a] || a - b);
    const blocks = alive.slice(0, this.count);
    // The chosen block is listed even if it is small or already freed.
    if (chosen >= 0 && !blocks.includes(chosen)) blocks.unshift(chosen);
    const largest = Math.max(...blocks.map((block) => timeline.bytes[block]), 1);
    const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.block : undefined;
    document.querySelector("#blocks tbody").replaceChildren(...blocks.map((block) => this.row(block, largest)));
    if (focused !== undefined) {
      const again = document.querySelector(`#blocks button[data-block="${Number(focused)}"]`);
      if (again) again.focus();
    }
    const where = event === timeline.peak ? "at the peak" : "at the chosen moment";
    const many = alive.length === 1 ? "the only block" : `largest of ${formatCount(alive.length)} blocks`;
    byId("caption").textContent = alive.length ? `${many} ${where}` : `no blocks ${where}`;
    const rest = alive.length - this.count;
    byId("more").hidden = rest <= 0;
    byId("more").textContent = `show ${formatCount(Math.min(200, rest))} more`;
  }

  row(block, largest) {
    const { timeline } = this;
    const category = timeline.category[block];
    const names = ["scope", "operation"].map((kind) => timeline.name(kind, block)).filter((name) => name && name !== titleOf(timeline, block));
    const button = element("button", { type: "button", "data-block": block },
      element("b", {}, titleOf(timeline, block)), element("span", {}, names.join(" · ") || PHASES[timeline.phase[block]]));
    const share = element("i", { class: `c${category}` });
    share.style.width = `${Math.max(2, (timeline.bytes[block] / largest) * 100)}%`;
    const died = timeline.died[block];
    const row = element("tr", block === this.chosen ? { class: "chosen", "aria-selected": "true" } : {},
      element("td", {}, button),
      element("td", { class: "number" }, formatBytes(timeline.bytes[block])),
      element("td", { class: "share" }, share),
      element("td", { class: "mid" }, swatch(category), CATEGORIES[category]),
      element("td", { class: "mid" }, timeline.name("operation", block) || madeIn(timeline, block)),
      element("td", { class: "wide" }, timeline.shapeOf(block) || "–"),
      element("td", { class: "wide" }, timeline.name("dtype", block) || "–"),
      element("td", { class: "number wide" }, timeline.born[block] === 0 ? "–" : timeline.formatMoment(timeline.born[block])),
      element("td", { class: "number wide" }, died === NEVER ? "–" : timeline.formatMoment(died)));
    row.addEventListener("click", () => this.choose(block));
    return row;
  }
}
