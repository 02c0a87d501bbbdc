// Draws the canvases.

const BAND = 20;

function layOut() {
  const width = stage.clientWidth;
  const height = stage.clientHeight;
  const ratio = Math.min(devicePixelRatio || 1, 2);
  const left = width < 500 ? 58 : 72;
  const top = bands.length * (BAND + 2) + 6;
  const plot = { left, top, width: Math.max(1, width - left - 8), height: Math.max(1, height - top - 24) };
  return { width, height, ratio, plot };
}

function prepare(canvas, layout) {
  const [width, height] = [layout.width, layout.height].map((size) => Math.max(1, Math.round(size * layout.ratio)));
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const toX = (place) => scene.layout.plot.left + ((place - view.low) / view.span) * scene.layout.plot.width;
const fromX = (x) => view.low + ((x - scene.layout.plot.left) / scene.layout.plot.width) * view.span;
const toY = (bytes) => scene.layout.plot.top + scene.layout.plot.height * (1 - bytes / scene.top);

function draw() {
  const began = performance.now();
  if (!scene) makeScene();
  const layout = layOut();
  scene.layout = layout;
  const { plot, ratio } = layout;
  const context = prepare(byId("base"), layout);
  const width = Math.max(1, Math.round(plot.width * ratio));
  const height = Math.max(1, Math.round(plot.height * ratio));
  scene.columns = view.steps.columns(view.low, view.high, width, scene.totals);
  scene.yOf = (bytes) => height - Math.round((bytes / scene.top) * height);
  const { least, most } = scene.columns;
  const halfPixel = scene.top / height / 2;
  scene.drawn = largestBlocks(timeline, Math.max(0, least.at(0)), most.reduce((last, event) => Math.max(last, event), 0), halfPixel);
  if (state.chosen >= 0) scene.drawn[state.chosen] = 1;
  const raster = new Raster(width, height, palette.css("card"));
  (state.mode === "block" ? paintBlocks : paintCategories)(raster, scene.columns, scene);
  context.putImageData(raster.image, Math.round(plot.left * ratio), Math.round(plot.top * ratio));
  context.scale(ratio, ratio);
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  drawAxes(context);
  drawBands(context);
  drawLimit(context);
  drawOverlay(context);
  drawDeviceTracks();
  drawTop();
  drawMap();
  stage.dataset.drawMs = (performance.now() - began).toFixed(1);
}

// Powers of two, so that labels are round in binary units.
function drawAxes(context) {
  const { plot } = scene.layout;
  const step = 2 ** Math.ceil(Math.log2(scene.top / Math.max(2, plot.height / 64)));
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (let bytes = 0; bytes <= scene.top; bytes += step) {
    const y = Math.round(toY(bytes)) + 0.5;
    context.fillStyle = palette.css("soft");
    context.fillText(formatTick(bytes), plot.left - 8, y);
    context.globalAlpha = bytes ? 0.1 : 0.5;
    context.fillStyle = palette.css("ink");
    context.fillRect(plot.left, y - 0.5, plot.width, 1);
    context.globalAlpha = 1;
  }
  context.textAlign = "center";
  context.textBaseline = "top";
  const { places, step: apart } = view.ticks(plot.width / 96);
  for (const place of places) {
    const x = toX(place);
    const text = view.formatTick(place, apart);
    const half = context.measureText(text).width / 2;
    context.fillStyle = palette.css("line");
    context.fillRect(Math.round(x), plot.top + plot.height, 1, 5);
    context.fillStyle = palette.css("soft");
    context.fillText(text, Math.max(plot.left + half - 8, Math.min(plot.left + plot.width - half + 6, x)), plot.top + plot.height + 8);
  }
}

const spanEdges = (span) => [span.start, Math.min(span.end, timeline.events)].map((event) => toX(view.steps.xs[event]));

function drawBands(context) {
  const { plot } = scene.layout;
  const right = plot.left + plot.width;
  context.textBaseline = "middle";
  bands.forEach((kind, band) => {
    const y = band * (BAND + 2);
    context.textAlign = "right";
    context.fillStyle = palette.css("soft");
    context.fillText(kind, plot.left - 8, y + BAND / 2);
    context.textAlign = "left";
    let reached = -1;
    timeline.spans[kind].forEach((span, number) => {
      const [from, to] = spanEdges(span);
      if (to < plot.left || from > right || to < reached + 0.5) return;
      const start = Math.max(plot.left, from);
      const width = Math.max(0.5, Math.min(right, to) - start);
      reached = start + width;
      context.fillStyle = palette.css(number % 2 ? "band2" : "band");
      context.fillRect(start, y, Math.max(0.5, width - (width > 3 ? 1 : 0)), BAND);
      if (width > 14) drawLabel(context, span.name, start + 5, y + BAND / 2 + 0.5, width - 10);
      if (kind === "phase" && width > 40 && from > plot.left) {
        context.globalAlpha = 0.22;
        context.fillStyle = palette.css("ink");
        context.fillRect(Math.round(from), plot.top, 1, plot.height);
        context.globalAlpha = 1;
      }
    });
  });
}

function drawLabel(context, text, x, y, width) {
  // The last part alone is enough for "step 12" and "layer3.0.conv1", not for "layer3.1".
  const [last] = text.match(/\d+\.\d+$/) || text.match(/[^. ]+$/) || [""];
  const shown = [text, last].find((part) => context.measureText(part).width <= width);
  if (!shown) return;
  context.fillStyle = palette.css("ink");
  context.fillText(shown, x, y);
}

function drawLimit(context) {
  if (!scene.isLimitShown) return;
  const { plot } = scene.layout;
  const y = Math.round(toY(timeline.limit));
  context.fillStyle = palette.css("limit");
  context.fillRect(plot.left, y - 1, plot.width, 2);
  context.textAlign = "right";
  context.textBaseline = "middle";
  const text = `limit ${formatBytes(timeline.limit)}`;
  const width = context.measureText(text).width + 14;
  const right = plot.left + plot.width;
  context.beginPath();
  context.roundRect(right - width, y - 10, width, 20, 5);
  context.fill();
  context.fillStyle = palette.css("card");
  context.fillText(text, right - 7, y + 0.5);
}

// Text with an outline, readable on an area.
function haloed(context, text, x, y) {
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.strokeStyle = palette.css("card");
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

function drawOverlay(context) {
  if (!overlay || !state.isOverlayShown) return;
  const { plot } = scene.layout;
  const columns = scene.planSteps.columns(view.low, view.high, Math.max(1, Math.round(plot.width)), scene.planned);
  const path = new Path2D();
  let isDrawn = false;
  runs(columns, (left, right, least, most) => {
    const y = toY(scene.planned[most]);
    if (isDrawn) path.lineTo(plot.left + left, y);
    else path.moveTo(plot.left + left, y);
    path.lineTo(plot.left + right, y);
    isDrawn = true;
  });
  context.lineJoin = "round";
  context.setLineDash([]);
  context.lineWidth = 3.5;
  context.strokeStyle = palette.css("card");
  context.globalAlpha = 0.6;
  context.stroke(path);
  context.globalAlpha = 1;
  context.lineWidth = 1.6;
  context.setLineDash([6, 4]);
  context.strokeStyle = palette.css("ink");
  context.stroke(path);
  context.setLineDash([]);
}

// The top layer, which changes as the pointer moves.
function drawTop() {
  const { layout } = scene;
  const { plot, ratio } = layout;
  const context = prepare(byId("top"), layout);
  context.scale(ratio, ratio);
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  if (state.chosen >= 0) spotlight(context, state.chosen, true);
  if (state.hovered >= 0 && state.hovered !== state.chosen) spotlight(context, state.hovered, false);
  drawMoment(context);
  if (state.selection) {
    const [from, to] = state.selection.slice().sort((a, b) => a - b);
    context.fillStyle = palette.css("c0");
    context.globalAlpha = 0.22;
    context.fillRect(from, plot.top, to - from, plot.height);
    context.globalAlpha = 1;
    context.fillRect(from, plot.top, 1, plot.height);
    context.fillRect(to, plot.top, 1, plot.height);
  } else if (state.cursor !== null) {
    context.globalAlpha = 0.4;
    context.fillStyle = palette.css("ink");
    context.fillRect(Math.round(state.cursor), plot.top, 1, plot.height);
    context.globalAlpha = 1;
  }
}

// A block over its lifetime. A chosen block dims the rest; a hovered one is only outlined.
function spotlight(context, block, isChosen) {
  const { plot, ratio } = scene.layout;
  const band = new BlockBand(scene, block);
  const fill = new Path2D();
  let outline = [];
  const outlines = [];
  runs(scene.columns, (left, right, least, most) => {
    const event = band.eventOf(least, most);
    const isShown = event >= 0 && state.shown[timeline.category[block]];
    if (!isShown) {
      if (outline.length) outlines.push(outline);
      outline = [];
      return;
    }
    const below = band.at(event);
    const [x0, x1] = [plot.left + left / ratio, plot.left + right / ratio];
    const [bottom, top] = [toY(below), Math.min(toY(below + timeline.bytes[block]), toY(below) - 1.5)];
    fill.rect(x0, top, x1 - x0, bottom - top);
    outline.push([x0, x1, top, bottom]);
  });
  if (outline.length) outlines.push(outline);
  if (isChosen) {
    context.fillStyle = palette.css("card");
    context.globalAlpha = 0.66;
    context.fillRect(plot.left, plot.top, plot.width, plot.height);
    context.globalAlpha = 1;
    context.fillStyle = palette.css(`c${timeline.category[block]}`);
    context.fill(fill);
  }
  context.strokeStyle = palette.css("ink");
  context.lineWidth = isChosen ? 1.5 : 1;
  for (const pieces of outlines) context.stroke(around(pieces));
}

function around(pieces) {
  const path = new Path2D();
  path.moveTo(pieces[0][0], pieces[0][3]);
  for (const [from, to, top] of pieces) {
    path.lineTo(from, top);
    path.lineTo(to, top);
  }
  for (const [from, to, , bottom] of pieces.slice().reverse()) {
    path.lineTo(to, bottom);
    path.lineTo(from, bottom);
  }
  path.closePath();
  return path;
}

function drawMoment(context) {
  const { plot } = scene.layout;
  if (!timeline.events) return;
  const x = toX(view.steps.xs[state.moment]);
  if (x < plot.left - 1 || x > plot.left + plot.width + 1) return;
  const y = toY(scene.totals[state.moment]);
  context.fillStyle = palette.css("ink");
  context.fillRect(Math.round(x), y, 1, plot.top + plot.height - y);
  context.beginPath();
  context.arc(x + 0.5, y, 4.5, 0, 7);
  context.lineWidth = 2;
  context.strokeStyle = palette.css("card");
  context.fill();
  context.stroke();
  context.textBaseline = "bottom";
  const isRight = x > plot.left + plot.width - 150;
  context.textAlign = isRight ? "right" : "left";
  const name = state.moment === timeline.peak ? "peak " : "";
  haloed(context, `${name}${formatBytes(scene.totals[state.moment])}`, x + (isRight ? -9 : 10), Math.max(plot.top + 16, y - 4));
}

// The overview map: the whole timeline with the window marked.
function drawMap() {
  const canvas = byId("map");
  const { plot, ratio } = scene.layout;
  const layout = { width: canvas.clientWidth, height: canvas.clientHeight, ratio };
  const context = prepare(canvas, layout);
  const { width, height } = canvas;
  const left = Math.round(plot.left * ratio);
  const inner = Math.max(1, Math.round(plot.width * ratio));
  const columns = view.steps.columns(view.first, view.last, inner, scene.totals);
  context.fillStyle = palette.css("faint");
  context.fillRect(left, 0, inner, height);
  context.fillStyle = palette.css("soft");
  context.globalAlpha = 0.45;
  runs(columns, (from, to, least, most) => {
    const tall = Math.round((scene.totals[most] / scene.top) * height);
    context.fillRect(left + from, height - tall, to - from, tall);
  });
  context.globalAlpha = 1;
  const toMap = (place) => left + ((place - view.first) / (view.last - view.first)) * inner;
  const [from, to] = [toMap(view.low), Math.max(toMap(view.high), toMap(view.low) + 3)];
  context.fillStyle = palette.css("card");
  context.globalAlpha = 0.7;
  context.fillRect(left, 0, from - left, height);
  context.fillRect(to, 0, left + inner - to, height);
  context.globalAlpha = 1;
  context.strokeStyle = palette.css("ink");
  context.lineWidth = ratio;
  context.strokeRect(from + ratio / 2, ratio / 2, Math.max(1, to - from - ratio), height - ratio);
}
