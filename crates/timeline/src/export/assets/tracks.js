// One track per device, on the axis of the chart.

const KINDS = data.track_kinds;
const COMMUNICATION = KINDS.indexOf("communication");
const IDLE = KINDS.indexOf("idle");
const DARK = ["backward", "step"].map((name) => KINDS.indexOf(name));
const TRACK = 20;
// Height of the strip below a track that shows concurrent transfers.
const STRIP = 4;
const trackBox = byId("tracks");
const tracksOfDevices = DEVICES.map(({ timeline }) => new Track(timeline.track));
const hasTracks = tracksOfDevices.some((track) => track.spans.length);
const hasTransfers = tracksOfDevices.some((track) => track.transfers.length);
const ROW = TRACK + (hasTransfers ? STRIP + 2 : 0) + 5;

function drawDeviceTracks() {
  if (!hasTracks) return;
  const { plot, ratio } = scene.layout;
  const layout = { width: trackBox.clientWidth, height: trackBox.clientHeight, ratio };
  const context = prepare(trackBox, layout);
  context.scale(ratio, ratio);
  const family = getComputedStyle(document.body).fontFamily;
  const window = [view.toTime(view.low), view.toTime(view.high)];
  const colors = KINDS.map((_, kind) => palette.css(`l${kind}`));
  tracksOfDevices.forEach((track, device) => {
    const top = device * ROW;
    const isShown = device === state.device && DEVICES.length > 1;
    context.font = `${isShown ? "600 " : ""}12px ${family}`;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = palette.css(isShown ? "ink" : "soft");
    context.fillText(DEVICES.length > 1 ? DEVICES[device].timeline.device : "device", plot.left - 8, top + TRACK / 2);
    context.font = `11px ${family}`;
    context.save();
    context.beginPath();
    context.rect(plot.left, top, plot.width, ROW);
    context.clip();
    context.fillStyle = palette.css("faint");
    context.fillRect(plot.left, top, plot.width, TRACK);
    for (const span of track.within(track.spans, window)) drawPiece(context, span, [top, TRACK], colors[span.kind]);
    context.globalAlpha = 0.75;
    for (const span of track.transfers) drawPiece(context, span, [top + TRACK + 1, STRIP], colors[COMMUNICATION]);
    context.restore();
  });
}

function drawPiece(context, span, [top, height], color) {
  const [from, to] = [span.start, span.end].map((time) => toX(view.fromTime(time)));
  const width = to - from;
  context.fillStyle = color;
  context.fillRect(from, top, Math.max(0.4, width - (width > 4 ? 1 : 0)), height);
  if (height < TRACK || width < 14 || span.kind === IDLE) return;
  const [number] = span.name.match(/\d+$/) || [""];
  const text = [span.name, number].find((part) => part && context.measureText(part).width <= width - 8);
  if (!text) return;
  context.textAlign = "left";
  context.fillStyle = DARK.includes(span.kind) ? "#ffffff" : "#12151a";
  // The label of a span that begins left of the window stays visible.
  context.fillText(text, Math.max(from, scene.layout.plot.left) + 4, top + height / 2 + 0.5);
}

// The device and the span under a point; between spans, the idle gap.
function lookAtTracks(x, y) {
  const device = Math.floor(y / ROW);
  const track = tracksOfDevices[device];
  const { plot } = scene.layout;
  if (!track) return null;
  if (x < plot.left || x > plot.left + plot.width) return { device };
  const time = view.toTime(fromX(x));
  if (y - device * ROW > TRACK) {
    const span = track.transfers.find((span) => span.start <= time && time < span.end);
    return { device, span, isTransfer: true };
  }
  return { device, span: track.at(time, [view.toTime(view.first), view.toTime(view.last)]) };
}

function placeOnTracks(pointer) {
  const box = trackBox.getBoundingClientRect();
  return scene && scene.layout ? lookAtTracks(pointer.clientX - box.left, pointer.clientY - box.top) : null;
}

trackBox.addEventListener("pointermove", (pointer) => {
  const found = placeOnTracks(pointer);
  if (!found || !found.span) return tip.hide();
  const { device, span, isTransfer } = found;
  const title = element("span", {}, element("i", { class: `swatch l${span.kind}` }), span.name);
  const rows = [
    ["device", DEVICES[device].timeline.device],
    ["is", isTransfer ? "under way, whatever the device does" : KINDS[span.kind]],
    ["lasts", formatTime(span.end - span.start, Math.max(1, (span.end - span.start) / 1e3))],
    ["from", formatTime(span.start, Math.max(1, span.start / 2e4))],
  ];
  const zooms = device === state.device && !isTransfer;
  tip.show(pointer.clientX, pointer.clientY, title, rows, zooms ? "click to zoom to it" : "click shows the device's memory");
});
trackBox.addEventListener("pointerleave", () => tip.hide());
trackBox.addEventListener("click", (pointer) => {
  const found = placeOnTracks(pointer);
  if (!found) return;
  if (found.device !== state.device) return chooseDevice(found.device);
  if (!found.span || found.isTransfer) return;
  const [from, to] = [found.span.start, found.span.end].map((time) => view.fromTime(time));
  move(() => view.show(from - (to - from) * 0.02, to + (to - from) * 0.02));
});
trackBox.addEventListener("dblclick", () => move(() => view.reset()));

byId("track-section").hidden = !hasTracks;
if (hasTracks) {
  trackBox.style.height = `${DEVICES.length * ROW}px`;
  const used = KINDS.map((_, kind) => tracksOfDevices.some((track) => track.spans.some((span) => span.kind === kind)));
  byId("kinds").replaceChildren(
    ...KINDS.map((name, kind) => used[kind] && element("li", {}, element("i", { class: `swatch l${kind}` }), name)).filter(Boolean),
    ...(hasTransfers ? [element("li", {}, element("i", { class: `swatch thin l${COMMUNICATION}` }), "sums under way meanwhile")] : []),
  );
}
