// One metric of one run over steps or time.

class Curve {
  constructor(run, columns, values, isEvaluation) {
    Object.assign(this, { run, isEvaluation });
    const known = values.map((_, index) => index).filter((index) => isKnown(values[index]));
    this.values = known.map((index) => values[index]);
    this.places = { step: known.map((index) => columns.step[index]), seconds: known.map((index) => columns.seconds[index]) };
  }

  get xs() {
    return this.places[state.over];
  }

  get isShown() {
    return state.isShown[this.run] && this.values.length > 0;
  }

  // An exponential mean over a share of the readings, without the bias of its start. Evaluations stay as they are.
  smoothed() {
    if (this.isEvaluation || !state.smoothing) return this.values;
    const keep = 1 - 1 / (1 + this.values.length * state.smoothing);
    let [sum, weight] = [0, 0];
    return this.values.map((value) => {
      [sum, weight] = [sum * keep + value * (1 - keep), weight * keep + 1 - keep];
      return sum / weight;
    });
  }

  // The index of the reading that is nearest to a place on the horizontal axis, or -1 beyond the ends.
  nearest(at) {
    const xs = this.xs;
    const right = above(xs, at);
    const reach = (xs[xs.length - 1] - xs[0]) / Math.max(1, xs.length - 1);
    const candidates = [right - 1, right].filter((index) => index >= 0 && index < xs.length);
    const best = candidates.reduce((best, index) => (best < 0 || Math.abs(xs[index] - at) < Math.abs(xs[best] - at) ? index : best), -1);
    return best >= 0 && (candidates.length === 2 || Math.abs(xs[best] - at) <= reach) ? best : -1;
  }
}

// The curves of a metric: those of training, then those of the held-out set.
function curvesOf(training, evaluation) {
  const made = (kind, metric, isEvaluation) => RUNS.map((run, index) => new Curve(index, run[kind], metric ? metric(run) : [], isEvaluation));
  return [...made("training", training, false), ...made("evaluations", evaluation, true)];
}

const isLanguageModel = (run) => run.evaluations.perplexity.some(isKnown);
const exponential = (value) => (isKnown(value) ? Math.exp(value) : null);

const METRICS = {
  loss: { text: formatNumber, canLog: true, curves: curvesOf((run) => run.training.loss, (run) => run.evaluations.loss) },
  accuracy: { text: (value) => `${(value * 100).toFixed(1)} %`, tick: (value) => formatPercent(value, 1), curves: curvesOf((run) => run.training.accuracy, (run) => run.evaluations.accuracy) },
  perplexity: {
    text: formatNumber,
    canLog: true,
    curves: curvesOf((run) => (isLanguageModel(run) ? run.training.loss.map(exponential) : []), (run) => run.evaluations.perplexity),
  },
  lr: { text: formatNumber, isPlain: true, curves: curvesOf((run) => run.training.lr, null) },
  speed: { text: formatNumber, isPlain: true, fromZero: true, curves: curvesOf((run) => run.training.speed, null) },
  memory: { text: formatBytes, tick: formatTick, isPlain: true, fromZero: true, isBytes: true, curves: curvesOf((run) => run.training.memory, null) },
};
