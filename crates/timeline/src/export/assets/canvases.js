// Charts of two canvases, one above the other, and when all charts of a page are drawn.

const charts = [];

class CanvasChart {
  constructor(id) {
    this.box = byId(id);
    this.canvases = [...this.box.querySelectorAll("canvas")];
    charts.push(this);
    new ResizeObserver(() => redraw()).observe(this.box);
  }

  // A canvas of the box's size, cleared.
  context(index) {
    const canvas = this.canvases[index];
    this.width = this.box.clientWidth;
    this.height = this.box.clientHeight;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const [width, height] = [this.width, this.height].map((size) => Math.max(1, Math.round(size * ratio)));
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = `12px ${palette.family}`;
    context.lineJoin = "round";
    return context;
  }
}

const frame = new Frame(() => drawAll());
function redraw() {
  frame.request();
}

function drawAll() {
  const began = performance.now();
  for (const chart of charts) if (chart.box.clientWidth) chart.draw();
  document.body.dataset.drawMs = (performance.now() - began).toFixed(1);
}
