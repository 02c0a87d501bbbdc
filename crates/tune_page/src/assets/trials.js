// The trials as columns, and what is computed from them once.

const data = JSON.parse(byId("data").textContent);
const TRIALS = data.trials;
const COUNT = TRIALS.number.length;
const STATUSES = data.statuses;
const COMPLETE = STATUSES.indexOf("complete");
const INFEASIBLE = STATUSES.indexOf("infeasible");
const METRIC = clean(data.metric);
const UNIT = clean(data.unit);
const PARAMETERS = data.parameters.map((parameter, index) => ({
  ...parameter,
  label: clean(parameter.name),
  numbers: TRIALS.parameters[index],
}));

const last = (list) => (list.length ? list[list.length - 1] : null);
const isKnown = (value) => value !== null && Number.isFinite(value);
// The final value, or the last one of a trial that is not complete.
const QUALITY = TRIALS.value.map((value, trial) => (isKnown(value) ? value : last(TRIALS.curves[trial])));
const REACHED = TRIALS.steps.map(last);
const PEAK = TRIALS.measured.map((measured, trial) => (measured === null ? TRIALS.planned[trial] : measured));
// Small ranks are good; a trial without a value has the last.
const loss = (value) => (data.minimizes ? value : -value);
const RANKED = Uint32Array.from({ length: COUNT }, (_, trial) => trial).filter((trial) => isKnown(QUALITY[trial]));
RANKED.sort((a, b) => loss(QUALITY[a]) - loss(QUALITY[b]) || a - b);

const isBetter = (a, b) => loss(a) < loss(b);
const lengthText = (step) => (step === null ? "–" : `${formatCount(step)} ${step === 1 ? UNIT.replace(/s$/, "") : UNIT}`);

// A value of a parameter as text: `adamw`, `0.0031`.
function valueText(parameter, number) {
  if (number === null || number === undefined) return "not set";
  if (parameter.kind === "choice") return clean(parameter.choices[number]);
  return parameter.kind === "integer" ? String(number).replace("-", "−") : formatNumber(number);
}

// The values of a trial in TOML, as pairs of key and text.
function settings(trial) {
  const pairs = [];
  for (const parameter of PARAMETERS) {
    const number = parameter.numbers[trial];
    if (number === null) continue;
    const value = parameter.kind === "choice" ? parameter.choices[number] : number;
    pairs.push([parameter.name, tomlOf(value, parameter.kind === "float")]);
  }
  const adapted = TRIALS.adapted[trial].map(([key, value]) => [key, tomlOf(value, false)]);
  return [...pairs.filter(([key]) => !adapted.some(([other]) => other === key)), ...adapted];
}

const VALUES = Float64Array.from(RANKED, (trial) => QUALITY[trial]);
// Every value of every curve, the best first.
const CURVE_VALUES = Float64Array.from([...TRIALS.curves.flat(), ...VALUES]).sort((a, b) => loss(a) - loss(b));

// The range of values that rise in loss. Few values far from the rest would flatten a linear axis: they are drawn at its edge.
function rangeOf(values, isLog) {
  if (!values.length) return { low: 0, high: 1, isLog: false, isCut: false };
  const [best, worst] = [values[0], values[values.length - 1]];
  const usual = values[Math.ceil((values.length - 1) * 0.9)];
  const spread = Math.abs(usual - best);
  const isCut = !isLog && spread > 0 && Math.abs(worst - best) > 3 * spread;
  // Of few values the worst is usual, unless it is out of all proportion.
  const few = values.length < 10 && !isLog ? values[values.length >> 1] : best;
  const isFewCut = few !== best && Math.abs(worst - best) > 100 * Math.abs(few - best);
  const end = isFewCut ? best + (few - best) * 3 : isCut ? best + (usual - best) * 1.5 : worst;
  return { low: Math.min(best, end), high: Math.max(best, end), isLog, isCut: isCut || isFewCut };
}
