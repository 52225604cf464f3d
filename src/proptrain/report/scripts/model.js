/* The model that the page holds, and the walk back that takes a prediction apart. */

const read = (text, kind) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new kind(bytes.buffer);
};

function openModel(data) {
  const n = data.n;
  const model = {
    n, classes: data.classes, marks: data.marks, unsure: data.unsure, start: data.start,
    mixing: data.mixing, clamp: data.clamp, nTold: data.nTold,
    given: read(data.given, Int16Array), role: read(data.role, Uint8Array),
    trust: data.trust === null ? new Float32Array(n).fill(1) : read(data.trust, Float32Array),
    toldClass: read(data.toldClass, Uint16Array), toldShare: read(data.toldShare, Uint16Array),
    f: data.f === null ? null : read(data.f, data.fUnit === 255 ? Uint8Array : Uint16Array),
    fUnit: data.fUnit, factors: data.factors, byLabels: data.byLabels,
    name: (node) => (data.ids === null ? String(node) : data.ids[node]),
    told: (node) => model.toldClass[node * data.nTold],
    sureness: (node) => model.toldShare[node * data.nTold] / 65535,
  };
  model.kept = keptByFactors(model);
  Object.assign(model, openGraph(data));
  return Object.assign(model, normalised(model, data.normalisation));
}

/* What an audit found of each label, by its node; nothing if there was none. */
function openAudit(data) {
  if (data === null) return new Map();
  const suggested = read(data.suggested, Uint16Array), found = read(data.found, Uint8Array);
  const shares = (text) => Array.from(read(text, Uint16Array), (units) => (units === 65535 ? NaN : units / 65534));
  const suspicion = shares(data.suspicion), crossFitted = shares(data.crossFitted), others = shares(data.others);
  return new Map([...read(data.nodes, Uint16Array)].map((node, i) => [node, {
    suggested: data.classes[suggested[i]], suspicion: suspicion[i], isJudged: found[i] > 0,
    isSuspect: found[i] === 2, crossFitted: crossFitted[i], others: others[i],
  }]));
}

/* How much of what is said of each node is left once its classes are multiplied by their factors. */
function keptByFactors({ n, classes, f, factors }) {
  const kept = new Float64Array(n).fill(1), nClasses = classes.length;
  if (f === null || factors.every((factor) => factor === 1)) return kept;
  for (let i = 0; i < n; i += 1) {
    let said = 0, left = 0;
    for (let c = 0; c < nClasses; c += 1) {
      said += f[i * nClasses + c];
      left += f[i * nClasses + c] * factors[c];
    }
    if (said > 0) kept[i] = left / said;
  }
  return kept;
}

/* Each edge is kept once; here it gets its other direction, neighbours in ascending order. */
function openGraph(data) {
  const counts = read(data.edgeCounts, Uint16Array);
  const ends = read(data.edgeEnds, Uint16Array);
  const given = data.edgeWeights === null ? null : read(data.edgeWeights, Float32Array);
  const first = new Uint32Array(data.n + 1);
  for (let i = 0, e = 0; i < data.n; i += 1) {
    first[i + 1] += counts[i];
    for (const last = e + counts[i]; e < last; e += 1) first[ends[e] + 1] += 1;
  }
  for (let i = 0; i < data.n; i += 1) first[i + 1] += first[i];
  const near = new Uint32Array(2 * ends.length), weight = new Float64Array(2 * ends.length);
  const next = first.slice();
  const put = (i, j, w) => { near[next[i]] = j; weight[next[i]] = w; next[i] += 1; };
  for (let i = 0, e = 0; i < data.n; i += 1) {
    for (const last = e + counts[i]; e < last; e += 1) {
      const w = given === null ? 1 : given[e];
      put(ends[e], i, w);
      put(i, ends[e], w);
    }
  }
  return { first, near, weight };
}

/* The operator as factors of rows and columns around A, or A + I. */
function normalised({ n, first, weight }, kind) {
  const loop = kind === "symmetric" ? 1 : 0;
  const out = new Float64Array(n), into = new Float64Array(n);
  for (let i = 0; i < n; i += 1) {
    let degree = loop;
    for (let e = first[i]; e < first[i + 1]; e += 1) degree += weight[e];
    const factor = degree > 0 ? (kind === "row" ? 1 / degree : 1 / Math.sqrt(degree)) : 0;
    out[i] = factor;
    into[i] = kind === "row" ? 1 : factor;
  }
  return { loop, out, into };
}

/* What arrives at a node: of every other's signal, over all steps (weights), times the number of
   steps (moments), and what counts of it in each step (bySteps; counts says how much of a node's
   does). Where a node is held, the way back ends. */
function received(model, node, held, counts) {
  const { n, first, near, weight, loop, out, into, mixing } = model;
  const weights = new Float64Array(n), moments = new Float64Array(n);
  const bySteps = [];
  let front = new Float64Array(n);
  front[node] = 1;
  for (let steps = 0; steps <= mixing.length; steps += 1) {
    const neighbours = steps < mixing.length ? mixing[mixing.length - 1 - steps] : 0;
    const following = new Float64Array(n);
    let arrived = 0;
    for (let i = 0; i < n; i += 1) {
      if (front[i] === 0) continue;
      const onward = held !== null && held[i] ? 0 : neighbours * front[i];
      const stays = front[i] - onward;
      weights[i] += stays;
      moments[i] += steps * stays;
      arrived += stays * counts(i);
      if (onward === 0) continue;
      const passed = onward * out[i];
      following[i] += passed * loop * into[i];
      for (let e = first[i]; e < first[i + 1]; e += 1) {
        following[near[e]] += passed * weight[e] * into[near[e]];
      }
    }
    bySteps.push(arrived);
    front = following;
  }
  return { weights, moments, bySteps };
}

/* The parts of a node's soft label, the largest first; labels in `without` are taken away. */
function labelParts(model, node, without) {
  const known = Uint8Array.from(model.role, (role, i) => Number(role === 1 && !without.has(i)));
  const { weights, moments, bySteps } = received(
    model, node, model.clamp ? known : null, (i) => known[i] * model.trust[i],
  );
  const totals = new Float64Array(model.classes.length), parts = [];
  for (let i = 0; i < model.n; i += 1) {
    if (!known[i] || weights[i] === 0) continue;
    const value = weights[i] * model.trust[i];
    totals[model.given[i]] += value;
    parts.push({ node: i, code: model.given[i], value, steps: moments[i] / weights[i] });
  }
  return finished(parts, totals, bySteps);
}

/* The parts of what is told of a node: what the network says of each node, times its weight and the
   factor of the class. Weights are told as shares of them all. */
function neighbourParts(model, node) {
  const { weights, moments, bySteps } = received(model, node, null, (i) => model.kept[i]);
  const told = model.told(node), nClasses = model.classes.length;
  const totals = new Float64Array(nClasses), parts = [];
  const whole = weights.reduce((sum, weight) => sum + weight, 0);
  for (let i = 0; i < model.n; i += 1) {
    if (weights[i] === 0) continue;
    for (let c = 0; c < nClasses; c += 1) {
      totals[c] += (weights[i] * model.factors[c] * model.f[i * nClasses + c]) / model.fUnit;
    }
    const own = model.f[i * nClasses + told] / model.fUnit;
    const value = weights[i] * model.factors[told] * own;
    parts.push({
      node: i, code: model.told(i), value, weight: weights[i] / whole, own, steps: moments[i] / weights[i],
    });
  }
  return finished(parts, totals, bySteps);
}

function finished(parts, totals, bySteps) {
  const whole = totals.reduce((sum, value) => sum + value, 0);
  const arrived = bySteps.reduce((sum, value) => sum + value, 0);
  parts.sort((a, b) => b.value - a.value || a.node - b.node);
  for (const part of parts) part.share = whole > 0 ? part.value / whole : 0;
  return { parts, totals, whole, bySteps: bySteps.map((value) => (arrived > 0 ? value / arrived : 0)) };
}
