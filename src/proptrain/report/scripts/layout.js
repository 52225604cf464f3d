/* Which nodes a picture shows, and where: as proptrain.insight.neighbourhood does it. */

const INNERMOST = 0.45;

function neighbourhood(model, node, labels, neighbours, most) {
  const share = new Map(labels.parts.map((part) => [part.node, part.share]));
  const weight = new Map(
    neighbours === null ? [] : neighbours.parts.map((part) => [part.node, part.weight]),
  );
  const matters = (i) => Math.max(share.get(i) || 0, weight.get(i) || 0);
  const distances = distancesFrom(model, node);
  const parents = choose(model, node, matters, share, distances, most);
  const places = place(parents, distances);
  const shown = [...parents.keys()].map((i) => ({
    node: i, distance: distances[i], share: share.get(i) || 0, weight: weight.get(i) || 0,
    x: places.get(i)[0], y: places.get(i)[1],
  }));
  const where = new Map(shown.map((one, index) => [one.node, index]));
  const edges = [];
  for (const [i, index] of where) {
    for (let e = model.first[i]; e < model.first[i + 1]; e += 1) {
      const other = where.get(model.near[e]);
      if (other !== undefined && other > index) edges.push([index, other]);
    }
  }
  return { shown, edges };
}

function distancesFrom(model, start) {
  const distances = new Int32Array(model.n).fill(-1);
  distances[start] = 0;
  let front = [start];
  for (let distance = 1; front.length && distance <= model.mixing.length; distance += 1) {
    const following = [];
    for (const i of front) {
      for (let e = model.first[i]; e < model.first[i + 1]; e += 1) {
        if (distances[model.near[e]] >= 0) continue;
        distances[model.near[e]] = distance;
        following.push(model.near[e]);
      }
    }
    front = following;
  }
  return distances;
}

/* The nodes to show, each with the one it hangs on; those between come along. */
function choose(model, start, matters, share, distances, most) {
  const parents = new Map([[start, start]]);
  const candidates = [];
  for (let i = 0; i < model.n; i += 1) if (matters(i) > 0) candidates.push(i);
  candidates.sort((a, b) => matters(b) - matters(a) || a - b);
  for (const candidate of candidates) {
    if (parents.size === most) break;
    const way = [];
    for (let here = candidate; !parents.has(here);) {
      const before = nearest(model, here, matters, share, distances);
      way.push([here, before]);
      here = before;
    }
    if (parents.size + way.length > most) continue;
    for (const [i, parent] of way.reverse()) parents.set(i, parent);
  }
  return parents;
}

/* The neighbour one hop nearer: no label if there is such a one, since labels stop each other. */
function nearest(model, node, matters, share, distances) {
  const comesFirst = (a, b) => {
    if (share.has(a) !== share.has(b)) return share.has(b);
    return matters(a) !== matters(b) ? matters(a) > matters(b) : a < b;
  };
  let best = -1;
  for (let e = model.first[node]; e < model.first[node + 1]; e += 1) {
    const other = model.near[e];
    if (distances[other] !== distances[node] - 1) continue;
    if (best < 0 || comesFirst(other, best)) best = other;
  }
  return best;
}

/* Every node gets a sector inside that of the one it hangs on, as wide as its own need. */
function place(parents, distances) {
  const nodes = [...parents.keys()], children = new Map(nodes.map((i) => [i, []]));
  for (const [i, parent] of parents) if (i !== parent) children.get(parent).push(i);
  const need = new Map();
  const sum = (i) => children.get(i).reduce((total, child) => total + need.get(child), 0);
  for (const i of [...nodes].reverse()) need.set(i, Math.max(1 / Math.max(distances[i], 1), sum(i)));
  const sectors = new Map([[nodes[0], [0, 2 * Math.PI]]]), places = new Map();
  const radii = radiiOf(nodes.map((i) => distances[i]));
  for (const i of nodes) {
    let [low, high] = sectors.get(i);
    const angle = (low + high) / 2;
    const radius = radii[distances[i]];
    places.set(i, [radius * Math.sin(angle), radius * Math.cos(angle)]);
    const width = (high - low) / (sum(i) || 1);
    for (const child of children.get(i)) {
      sectors.set(child, [low, low + width * need.get(child)]);
      low = sectors.get(child)[1];
    }
  }
  return places;
}

/* The radius of each ring, the outermost 1; a ring of few nodes gets less room. */
function radiiOf(rings) {
  const counts = new Array(Math.max(...rings) + 1).fill(0);
  for (const ring of rings) counts[ring] += 1;
  if (counts.length <= 2) return [0, 1];
  const room = counts.map((count, ring) => (ring < 2 ? 0 : Math.min(Math.max(count / 4, 0.4), 1)));
  for (let ring = 1; ring < room.length; ring += 1) room[ring] += room[ring - 1];
  return room.map((sum, ring) => (ring === 0 ? 0 : INNERMOST + ((1 - INNERMOST) * sum) / room.at(-1)));
}
