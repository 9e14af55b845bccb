// Draws the page of a sweep from the JSON in #data, which orchestrator/report/page/data.py makes and describes.
// A configuration is called by its place c in page.configurations, by rank. What is chosen is kept in the address, so
// that a page which reloads itself shows the same.
"use strict";
(() => {
const page = JSON.parse(document.getElementById("data").textContent);
const all = page.configurations, C = all.length, S = page.seeds;
const GROUPS = ["test", "selection", "trained"];
const FIRST = "#c2410c", SECOND = "#0f766e", OPEN = "#8a94a0"; // apart from one another for the colour-blind, too
const $ = id => document.getElementById(id);
const make = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
if (!page.metrics.some(metric => metric.lengths.length)) { // nothing has been evaluated yet
  for (const id of ["picture", "hyperparameters", "comparison", "table", "every"]) $(id).hidden = true;
  if (page.running) setTimeout(() => location.reload(), 10000);
  return;
}

// The curves: where the seeds and the bands of each metric and average begin among the numbers.
const bytes = Uint8Array.from(atob(page.numbers), letter => letter.charCodeAt(0));
const numbers = new Float32Array(bytes.buffer);
const evaluations = 1 + page.steps.length;
const seedsFrom = [], bandsFrom = [];
let offset = 0;
for (const [places, size] of [[seedsFrom, C * S], [bandsFrom, evaluations * C * 3]])
  for (const metric of page.metrics) {
    places.push(page.averages.map((_, a) => offset + a * size * metric.lengths.length));
    offset += page.averages.length * size * metric.lengths.length;
  }
const slice = (from, place, L) => numbers.subarray(from + place * L, from + (place + 1) * L);
const lengthsOf = m => page.metrics[m].lengths;
const seedCurve = (m, a, c, s) => slice(seedsFrom[m][a], c * S + s, lengthsOf(m).length);
const bandOf = (m, a, e, c) => [0, 1, 2].map(q => slice(bandsFrom[m][a], (e * C + c) * 3 + q, lengthsOf(m).length));

// What is chosen, kept in the address as well.
const ranked = d3.range(C).filter(c => all[c].rank);
const state = {
  m: 0, a: 0, e: 0, scale: page.metrics[0].log ? "log" : "linear", first: ranked[0] ?? null, second: ranked[1] ?? null,
  outcome: "selection", sort: "rank", down: 0, every: 0, filters: {},
};
const standard = JSON.stringify(state);
let pointed = null, column = null; // the configuration and the length that are pointed at
const load = () => {
  try {
    const kept = JSON.parse(decodeURIComponent(location.hash.slice(1)) || "{}");
    for (const key of Object.keys(state)) if (key in kept) state[key] = kept[key];
    state.m = Math.min(state.m, page.metrics.length - 1); state.a = Math.min(state.a, page.averages.length - 1);
    state.e = Math.min(state.e, page.steps.length);
    for (const key of ["first", "second"]) { // places change with the ranks, labels do not
      const c = all.findIndex(one => one.label === kept[key]);
      if (key in kept) state[key] = c < 0 ? null : c;
    }
    return kept.y || 0;
  } catch { return 0; } // somebody else's address
};
const save = y => {
  const kept = {...state, first: all[state.first]?.label ?? null, second: all[state.second]?.label ?? null};
  const text = y || JSON.stringify(state) !== standard ? encodeURIComponent(JSON.stringify(y ? {...kept, y} : kept)) : "";
  try { history.replaceState(null, "", text ? `#${text}` : "#"); } catch { /* a frame without an address */ }
};

const digits = x => x === null || Number.isNaN(x) ? "-" : x === Infinity ? page.judged.infinite : x === -Infinity ? "-inf"
  : Number(x).toPrecision(3).replace(/e([+-])(\d)$/, "e$10$2");
const signed = x => (x > 0 ? "+" : "") + digits(x);
const spans = values => {
  const runs = [];
  for (const value of values) {
    const last = runs[runs.length - 1];
    if (last && value === last[1] + 1) last[1] = value; else runs.push([value, value]);
  }
  return runs.map(([low, high]) => low === high ? low : `${low}-${high}`).join(", ");
};
const ramp = d3.scaleSequential(d3.interpolateCividis).domain([-0.06 * ranked.length, 1.3 * Math.max(1, ranked.length)]);
const colour = c => c === state.first ? FIRST : c === state.second ? SECOND : all[c].rank ? ramp(c) : OPEN;
const isJudged = () => page.metrics[state.m].name === page.judged.metric && page.averages[state.a] === page.judged.average;
const metricName = () => `${page.metrics[state.m].name} (${page.averages[state.a]})`;
const groupsOf = (c, m) => page.groups[all[c].groups[page.metrics[m].name]] || {};
const lengthsAt = group => { // of the judged metric, " 8-19"; empty if configurations have different ones
  const texts = new Set(d3.range(C).map(c => spans(groupsOf(c, 0)[group] || [])));
  return texts.size === 1 ? ` ${[...texts][0]}` : "";
};
const describe = c => [`rank ${all[c].rank ?? all[c].state}`, ...Object.entries(all[c].values).map(pair => pair.join(" ")),
  all[c].failed || all[c].run < all[c].seeds.length ? `${all[c].run - all[c].failed} of ${all[c].seeds.length} seeds finished, ${all[c].failed} failed` : `${all[c].run} seeds`].join(", ");
const marker = c => c === state.first ? "A " : c === state.second ? "B " : "";

const isDecades = values => page.metrics[0].log && d3.min(values) > 0 && d3.max(values) / d3.min(values) > 30;
const logTicks = scale => scale.domain()[1] / scale.domain()[0] >= 10 ? value => (/^1/.test(value.toExponential()) ? d3.format("~g")(value) : "") : d3.format("~g");

// Configurations that failed have no outcome: they stand in a strip beyond the worse end of its axis.
const failed = d3.range(C).filter(c => all[c].state === "failed"), STRIP = failed.length ? 20 : 0;
const [ABOVE, BELOW] = page.metrics[0].direction === "minimize" ? [STRIP, 0] : [0, STRIP];
const cross = (selection, cs, at) => pointable(selection.append("g").selectAll("text").data(cs).join("text")).text("\u00d7")
  .attr("class", c => `cross${isIn(c) ? "" : " out"}`).attr("text-anchor", "middle").attr("transform", c => `translate(${at(c)})`);

// Which configurations the axes leave in; each filter is [low, high] as parts of the height of its axis.
const axes = [
  ...page.hyperparameters.map(one => ({...one, values: one.values})),
  ...["selection", "test"].map(name => ({name, outcome: true, values: all.map(one => one[name]), number: true, log: isDecades(all.map(one => one[name]).filter(value => value !== null))})),
].filter(axis => axis.values.some(value => value !== null));
for (const axis of axes) {
  const known = axis.values.filter(value => value !== null), distinct = [...new Set(known)];
  axis.ticks = axis.number && distinct.length <= 5 ? distinct : null; // of a few values each has its own
  if (!axis.number) axis.scale = d3.scalePoint([...new Set(known)], [0, 1]).padding(0.3);
  else {
    const log = axis.log && d3.min(known) > 0;
    axis.log = log;
    axis.scale = (log ? d3.scaleLog() : d3.scaleLinear()).domain(d3.min(known) < d3.max(known) ? d3.extent(known) : [known[0] - 1, known[0] + 1]);
  }
}
const isIn = c => Object.entries(state.filters).every(([name, [low, high]]) => {
  const axis = axes.find(one => one.name === name);
  if (!axis) return true;
  const value = axis.values[c], part = value === null ? NaN : axis.scale(value);
  return part >= low - 1e-9 && part <= high + 1e-9;
});

function choose(c) {
  if (state.first === c) state.first = null;
  else if (state.second === c) state.second = null;
  else if (state.first === null) state.first = c;
  else state.second = c;
  update();
}
function point(c, place = null) {
  if (c === pointed && place === column) return;
  column = place;
  if (c === pointed) return readOut();
  pointed = c;
  document.querySelectorAll(".hot").forEach(element => element.classList.remove("hot"));
  document.body.classList.toggle("pointed", c !== null);
  if (c !== null) document.querySelectorAll(`[data-c="${c}"]`).forEach(element => element.classList.add("hot"));
  drawFocus();
  readOut();
}
const pointable = selection => selection.attr("data-c", c => c)
  .on("pointerenter", (_, c) => point(c)).on("pointerleave", () => point(null)).on("click", (_, c) => choose(c));
function byKeys(event) {
  const shown = ordered(), place = shown.indexOf(pointed);
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const next = shown[Math.max(0, Math.min(shown.length - 1, place + (event.key === "ArrowDown" ? 1 : -1)))];
    point(next);
    if (event.currentTarget.closest("table")) document.querySelector(`#table tr[data-c="${next}"]`)?.focus();
  } else if (event.key === "Enter" && pointed !== null) choose(pointed);
  else return;
  event.preventDefault();
}

// The curves against length.
let plot = null;
function drawCurves() {
  const box = $("curves"), width = Math.max(280, box.clientWidth), height = Math.max(280, Math.min(440, width * 0.46));
  const left = 62, right = 58, top = 22, bottom = 42, lengths = lengthsOf(state.m), log = state.scale === "log";
  const known = [];
  for (let c = 0; c < C; c++) {
    const [low, middle, high] = bandOf(state.m, state.a, state.e, c);
    for (const values of c === state.first || c === state.second ? [low, middle, high] : [middle])
      for (const value of values) if (Number.isFinite(value) && (!log || value > 0)) known.push(value);
    if (state.e === 0 && (c === state.first || c === state.second)) // its seeds are drawn, too
      for (let s = 0; s < all[c].seeds.length; s++)
        for (const value of seedCurve(state.m, state.a, c, s)) if (Number.isFinite(value) && (!log || value > 0)) known.push(value);
  }
  let [least, most] = known.length ? d3.extent(known) : [log ? 0.1 : 0, 1];
  if (!log) [least, most] = [least >= 0 && least < 0.6 * most ? 0 : least, most];
  if (least === most) [least, most] = log ? [least / 2, most * 2] : [least >= 0 ? Math.max(0, least - 0.5) : least - 0.5, most + 0.5];
  const x = d3.scaleLinear([lengths[0] - 0.5, lengths[lengths.length - 1] + 0.5], [left, width - right]);
  const y = (log ? d3.scaleLog() : d3.scaleLinear()).domain([least, most]).range([height - bottom, top]).nice();
  const clear = value => Number.isFinite(value) && (!log || value > 0);
  const line = d3.line().defined(([, value]) => clear(value)).x(([length]) => x(length)).y(([, value]) => y(value));
  const path = values => line(lengths.map((length, place) => [length, values[place]]));

  box.replaceChildren();
  const svg = d3.select(box).append("svg").attr("width", width).attr("height", height).attr("viewBox", [0, 0, width, height])
    .attr("role", "img").attr("tabindex", 0)
    .attr("aria-label", `${metricName()} against ${page.axis}, a line for each configuration; arrow keys point at them, Enter compares`)
    .on("keydown", byKeys);
  const hatch = svg.append("defs").append("pattern").attr("id", "hatch").attr("width", 6).attr("height", 6)
    .attr("patternUnits", "userSpaceOnUse").attr("patternTransform", "rotate(45)");
  hatch.append("rect").attr("width", 6).attr("height", 6).attr("fill", "#f7f8fa");
  hatch.append("rect").attr("width", 1.2).attr("height", 6).attr("fill", "#cbd2da");

  // The trained and the selection lengths, of the configuration that is looked at.
  const groups = groupsOf(state.first ?? 0, state.m), edge = place => place < 0 ? lengths[0] - 0.5
    : place + 1 >= lengths.length ? lengths[place] + 0.5 : (lengths[place] + lengths[place + 1]) / 2;
  const groupAt = lengths.map(length => GROUPS.slice(1).find(name => groups[name]?.includes(length)) || (groups.test?.includes(length) ? "test" : ""));
  let from = 0;
  for (let place = 0; place < lengths.length; place++) {
    if (place + 1 < lengths.length && groupAt[place + 1] === groupAt[from]) continue;
    const [x0, x1] = [x(edge(from - 1)), x(edge(place))], name = groupAt[from];
    svg.append("rect").attr("class", `range ${name}`).attr("x", x0).attr("width", x1 - x0).attr("y", top).attr("height", height - top - bottom)
      .attr("fill", {trained: "#e9edf2", selection: "url(#hatch)"}[name] || "none");
    if (x1 - x0 > 7 * name.length) svg.append("text").attr("x", (x0 + x1) / 2).attr("y", top - 7).attr("text-anchor", "middle").text(name);
    from = place + 1;
  }
  const few = lengths.length <= (width - left - right) / 30 ? lengths : x.ticks((width - left - right) / 60).filter(Number.isInteger);
  svg.append("g").attr("class", "grid").attr("transform", `translate(${left})`)
    .call(d3.axisLeft(y).ticks(6).tickSize(-(width - left - right)).tickFormat("")).select(".domain").remove();
  svg.append("g").attr("transform", `translate(0,${height - bottom})`).call(d3.axisBottom(x).tickValues(few).tickFormat(d3.format("d")).tickSizeOuter(0));
  svg.append("g").attr("transform", `translate(${left})`).call(d3.axisLeft(y).ticks(6).tickFormat(log ? logTicks(y) : d3.format("~g")));
  svg.append("text").attr("class", "title").attr("x", (left + width - right) / 2).attr("y", height - 6).attr("text-anchor", "middle").text(page.axis);
  svg.append("text").attr("class", "title").attr("transform", `translate(13,${(top + height - bottom) / 2}) rotate(-90)`).attr("text-anchor", "middle")
    .text(`median ${metricName()}`);

  svg.append("clipPath").attr("id", "inside").append("rect").attr("x", left).attr("y", top).attr("width", width - left - right).attr("height", height - top - bottom);
  const lines = svg.append("g").attr("clip-path", "url(#inside)");
  pointable(lines.selectAll("path").data(d3.range(C).reverse()).join("path"))
    .attr("class", c => `curve${all[c].rank ? "" : " open"}${isIn(c) ? "" : " out"}`)
    .attr("stroke", colour).attr("d", c => path(bandOf(state.m, state.a, state.e, c)[1]));
  svg.classed("single", lengths.length === 1); // a curve of one length is a dot
  const focus = svg.append("g").style("pointer-events", "none");
  plot = {focus, x, y, lengths, path, clear, left, right, width, top, bottom, height};

  // The nearest median to the pointer is pointed at: a thin line is hard to hit.
  const nearest = event => {
    const [px, py] = d3.pointer(event, svg.node()), place = d3.leastIndex(lengths, length => Math.abs(x(length) - px));
    let best = null, apart = 32;
    for (let c = 0; c < C; c++) {
      const value = bandOf(state.m, state.a, state.e, c)[1][place];
      if (isIn(c) && clear(value) && Math.abs(y(value) - py) < apart) { apart = Math.abs(y(value) - py); best = c; }
    }
    return [best, best === null ? null : place];
  };
  svg.append("rect").attr("class", "catch").attr("x", left).attr("y", top).attr("width", width - left - right).attr("height", height - top - bottom)
    .attr("fill", "none").style("pointer-events", "all").style("cursor", "crosshair")
    .on("pointermove", event => point(...nearest(event))).on("pointerleave", () => point(null))
    .on("click", event => { const [c] = nearest(event); if (c !== null) choose(c); });
  drawLegend(groups);
  drawFocus();
}

// The configurations A, B and the one that is pointed at: band, seeds, thick median and name.
function drawFocus() {
  const {focus, x, y, lengths, path, clear, right, width, top, bottom, height} = plot;
  focus.selectAll("*").remove();
  const shown = [...new Set([state.second, state.first, pointed])].filter(c => c !== null && c !== undefined), names = [];
  const inside = focus.append("g").attr("clip-path", "url(#inside)");
  for (const c of shown) {
    const [low, middle, high] = bandOf(state.m, state.a, state.e, c), tint = c === pointed && colour(c) !== FIRST && colour(c) !== SECOND ? "#1c2127" : colour(c);
    const area = d3.area().defined(place => clear(low[place]) && clear(high[place])).x(place => x(lengths[place])).y0(place => y(low[place])).y1(place => y(high[place]));
    inside.append("path").attr("class", "band").attr("fill", tint).attr("d", area(d3.range(lengths.length)));
    if (state.e === 0)
      for (let s = 0; s < all[c].seeds.length; s++)
        inside.append("path").attr("class", "seed").attr("data-of", c).attr("stroke", tint).attr("d", path(seedCurve(state.m, state.a, c, s)));
    inside.append("path").attr("class", "median").attr("data-of", c).attr("stroke", tint).attr("stroke-dasharray", c === state.second ? "7 3" : null).attr("d", path(middle));
    const last = d3.range(lengths.length - 1, -1, -1).find(place => clear(middle[place]));
    if (last !== undefined) names.push({c, tint, y: Math.max(top + 4, Math.min(height - bottom, y(middle[last])))});
  }
  names.sort((one, other) => one.y - other.y);
  for (let n = 1; n < names.length; n++) names[n].y = Math.max(names[n].y, names[n - 1].y + 14);
  for (const [n, name] of names.entries()) name.y = Math.min(name.y, height - bottom - 14 * (names.length - 1 - n));
  for (const name of names)
    focus.append("text").attr("class", "name").attr("x", width - right + 6).attr("y", name.y + 4).style("fill", name.tint).text(marker(name.c) + all[name.c].label);
}

function drawLegend(groups) {
  const shades = {trained: "#e9edf2", selection: "repeating-linear-gradient(45deg,#cbd2da 0 1px,#f7f8fa 1px 5px)", test: "#fff"};
  $("legend").replaceChildren(...["trained", "selection", "test"].filter(name => groups[name]?.length).map(name => {
    const entry = make("span"), swatch = make("i");
    swatch.style.background = shades[name];
    entry.append(swatch, `${name} ${spans(groups[name])}`);
    return entry;
  }), (() => {
    const entry = make("span"), swatch = make("i", undefined, {class: "ramp"});
    swatch.style.background = `linear-gradient(90deg,${[0, .5, 1].map(part => ramp(part * ranked.length)).join(",")})`;
    entry.append(swatch, "first to last by the selection lengths");
    return entry;
  })());
  if (!ranked.length) $("legend").lastChild.remove();
}
function readOut() {
  const c = pointed ?? state.first, box = $("readout");
  if (c === null) return box.replaceChildren("Point at a curve, a row or a point; click two to compare them.");
  const lost = state.e ? " Seeds are kept for the judged evaluation alone." : "";
  const [low, middle, high] = column === null ? [] : bandOf(state.m, state.a, state.e, c).map(values => digits(values[column]));
  const value = column === null ? "" : ` at ${page.axis} ${lengthsOf(state.m)[column]}: ${middle} [${low}, ${high}];`;
  const hint = pointed === null ? " Click another line or row to compare it with this one." : "";
  box.replaceChildren(make("b", marker(c) + all[c].label), `${value} ${describe(c)}.${lost}${hint}`);
}

// The table.
const columns = Object.keys(page.table);
const asNumber = text => { const value = parseFloat(text.replace(/^#/, "")); return Number.isNaN(value) ? Infinity : value; };
function ordered() {
  const cells = page.table[state.sort] || page.table.rank, isText = cells.every(text => asNumber(text) === Infinity), places = d3.range(C).filter(isIn);
  const order = isText ? (c, d) => d3.ascending(cells[c], cells[d]) : (c, d) => d3.ascending(asNumber(cells[c]), asNumber(cells[d]));
  return places.sort((c, d) => (state.down ? -1 : 1) * order(c, d) || c - d);
}
function drawTable() {
  const table = $("table"), head = make("tr"), body = make("tbody"), shown = ordered(), FEW = C > 15 ? 10 : 15;
  const hidden = new Set(["config_id", "form", ...(all.some(one => one.failed) ? [] : ["failed"])]);
  if (page.judged.reduce === "mean" && page.judged.statistic === "median") hidden.add("score"); // it is the median at the selection lengths
  const searched = new Set(page.hyperparameters.map(one => one.name)), visible = columns.filter(name => !hidden.has(name));
  const place = name => ["rank", "label", "selection", "test"].indexOf(name) + 1 || (searched.has(name) ? 6 : 5);
  if (innerWidth < 700) visible.sort((one, other) => place(one) - place(other)); // results first, values behind them
  const fill = text => { // quartiles in small print
    const cell = make("td", text.split(" [")[0], {class: "number"});
    if (text.includes(" [")) cell.append(make("small", ` [${text.split(" [")[1]}`));
    return cell;
  };
  head.append(make("th"));
  for (const name of visible) {
    const cell = make("th"), button = make("button", name, {type: "button"});
    if (state.sort === name) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    button.addEventListener("click", () => { state.down = state.sort === name ? 1 - state.down : 0; state.sort = name; update(); });
    cell.append(button);
    head.append(cell);
  }
  for (const c of state.every ? shown : shown.filter((c, place) => place < FEW || c === state.first || c === state.second)) {
    const row = make("tr", undefined, {tabindex: 0, "data-c": c, title: page.table.config_id?.[c] || ""}), cell = make("td");
    const mark = make("span", marker(c).trim(), {class: `mark ${{A: "first", B: "second"}[marker(c).trim()] || "none"}`});
    if (!marker(c)) mark.style.background = colour(c);
    cell.append(mark);
    row.append(cell, ...visible.map(name => fill(page.table[name][c])));
    row.addEventListener("pointerenter", () => point(c));
    row.addEventListener("pointerleave", () => point(null));
    row.addEventListener("focus", () => point(c));
    row.addEventListener("click", () => choose(c));
    row.addEventListener("keydown", byKeys);
    body.append(row);
  }
  const top = make("thead");
  top.append(head);
  table.replaceChildren(top, body);
  const beyond = [...head.cells].filter(cell => cell.offsetLeft + cell.offsetWidth > table.parentElement.clientWidth + 1).map(cell => cell.textContent);
  $("beyond").hidden = !beyond.length;
  $("beyond").textContent = `Scroll the table sideways to see ${beyond.join(", ")}.`;
  $("every").hidden = shown.length <= FEW;
  $("every").textContent = state.every ? `Show the first ${FEW}` : `Show all ${shown.length} configurations`;
  $("clear").hidden = !Object.keys(state.filters).length;
}

// Two configurations over their seeds: as orchestrator/statistics/two_samples.py compares them.
const binomial = (n, k) => { let ways = 1; for (let i = 1; i <= k; i++) ways = ways * (n - k + i) / i; return ways; };
const below = (n, k) => d3.sum(d3.range(k + 1), i => binomial(n, i)) / 2 ** n; // P(X <= k), X ~ B(n, 1/2)
const middle = values => {
  const sorted = Float64Array.from(values).sort(), n = sorted.length, low = sorted[(n - 1) >> 1], high = sorted[n >> 1];
  return !n ? NaN : low === high ? low : (low + high) / 2;
};
const reduced = (m, a, c, s, lengths, how) => {
  const curve = seedCurve(m, a, c, s), values = lengths.map(length => curve[lengthsOf(m).indexOf(length)]);
  return values.some(Number.isNaN) ? NaN : how === "max" ? d3.max(values) : how === "last" ? values[values.length - 1] : d3.sum(values) / values.length;
};
function compared(c, d, group) {
  const m = state.m, metric = page.metrics[m], {policy} = page.judged, groups = [c, d].map(one => groupsOf(one, m)[group] || []);
  const lengths = groups[0].filter(length => groups[1].includes(length));
  if (!lengths.length) return null;
  const how = group === "selection" && metric.name === page.judged.metric ? page.judged.reduce : "mean";
  const values = [c, d].map(one => new Map(all[one].seeds.map((seed, s) => [seed, reduced(m, state.a, one, s, lengths, how)])));
  const as = policy !== "worst" || metric.direction === "none" ? NaN : metric.direction === "minimize" ? Infinity : -Infinity;
  const lost = values.some(one => [...one.values()].some(Number.isNaN));
  const counted = values.map(one => new Map([...one].map(([seed, value]) => [seed, Number.isNaN(value) ? as : value]).filter(pair => !Number.isNaN(pair[1]))));
  const common = all[c].seeds.filter(seed => all[d].seeds.includes(seed)), [i, j] = [page.pairing.classes[c], page.pairing.classes[d]];
  const share = i === j || page.pairing.paired.some(pair => pair.includes(i) && pair.includes(j));
  const paired = share && common.length > 0 && common.length === Math.min(all[c].seeds.length, all[d].seeds.length);
  const medians = counted.map(one => middle(one.values()));
  const found = {group, lengths, medians, paired, differences: [], difference: NaN, low: NaN, high: NaN, level: NaN, p: NaN, n: 0, reason: ""};
  if (policy === "fail" && lost) return {...found, reason: "a seed failed, and with it the configuration"};
  if (!paired) return {...found, difference: medians[0] === medians[1] ? 0 : medians[0] - medians[1], reason: "the seeds are not paired, so there is no interval"};
  const seeds = common.filter(seed => counted[0].has(seed) && counted[1].has(seed));
  const differences = seeds.map(seed => { const [x, y] = counted.map(one => one.get(seed)); return x === y ? 0 : x - y; });
  const sorted = Float64Array.from(differences).sort(), n = sorted.length;
  Object.assign(found, {seeds, differences, n, difference: middle(sorted)});
  if (!n) return {...found, reason: "no seed has a value in both"};
  let out = -1; // how many of the sorted differences the interval leaves out at either end
  while (n >= 6 && 1 - 2 * below(n, out + 1) >= 0.95) out++;
  if (out >= 0) Object.assign(found, {low: sorted[out], high: sorted[n - 1 - out], level: 1 - 2 * below(n, out)});
  else found.reason = `${n} pair${n === 1 ? " of seeds is" : "s of seeds are"} too few for an interval (at least 6)`;
  const fewer = Math.min(differences.filter(x => x <= 0).length, differences.filter(x => x >= 0).length);
  found.p = Math.min(1, 2 * below(n, fewer));
  return found;
}
function interval(value, low, high, most, dots = [], alone = true) {
  const width = 130, height = 22, x = d3.scaleLinear([-most, most], [6, width - 6]).clamp(true);
  const svg = d3.create("svg").attr("width", width).attr("height", height).attr("role", "img")
    .attr("aria-label", Number.isFinite(low) ? `${signed(value)}, from ${signed(low)} to ${signed(high)}` : signed(value));
  svg.append("line").attr("x1", x(0)).attr("x2", x(0)).attr("y1", 1).attr("y2", height - 1).attr("stroke", "#9aa4af").attr("stroke-dasharray", "2 2");
  svg.selectAll("circle").data(dots).join("circle").attr("cx", d => x(d)).attr("cy", height / 2).attr("r", 2.4).attr("fill", "#8a94a0").attr("opacity", .7);
  if (low !== null && !Number.isNaN(low)) svg.append("line").attr("x1", x(low)).attr("x2", x(high)).attr("y1", height / 2).attr("y2", height / 2).attr("stroke", "#1c2127").attr("stroke-width", 2);
  if (Number.isFinite(value) && value !== null) svg.append("rect").attr("x", x(value) - 3.5).attr("y", height / 2 - 3.5).attr("width", 7).attr("height", 7).attr("fill", alone && (low > 0 || high < 0) ? "#1c2127" : "#fff").attr("stroke", "#1c2127").attr("stroke-width", 1.5);
  return svg.node();
}
function rows(head, body) {
  const table = make("table"), top = make("thead"), line = make("tr"), rest = make("tbody");
  line.append(...head.map(text => make("th", text)));
  top.append(line);
  for (const cells of body) {
    const row = make("tr");
    for (const cell of cells) {
      const box = make("td", undefined, {class: "number"});
      box.append(cell);
      row.append(box);
    }
    rest.append(row);
  }
  table.append(top, rest);
  const wide = make("div", undefined, {class: "scroll"});
  wide.append(table);
  return wide;
}
// As orchestrator/report/tables/seed_comparisons.py begins `lengthwise compare`.
function verdict({group, lengths, difference, low, high, level, n, reason}, first, second) {
  const names = [all[first].label, all[second].label], where = `at the ${group} length${lengths.length > 1 ? "s" : ""} ${spans(lengths)}`, evidence = `${(100 * level).toFixed(1)} % interval, ${n} pairs of seeds`;
  if (Number.isNaN(difference)) return `Inconclusive ${where}: ${reason}.`;
  if (!(low > 0 || high < 0)) return `Inconclusive ${where}: ${names[0]} minus ${names[1]} is ${signed(difference)}${Number.isNaN(low) ? `: ${reason}` : ` [${signed(low)}, ${signed(high)}] (${evidence})`}.`;
  const {direction} = page.metrics[state.m], [better, other] = (low > 0) === (direction === "maximize") ? names : names.toReversed(), ends = [low, high].map(Math.abs).sort((x, y) => x - y);
  return `${better} is ${direction === "none" ? "lower" : "better"} than ${other} ${where}, by ${digits(Math.abs(difference))} [${ends.map(digits).join(", ")}] (${evidence}).`;
}
function drawComparison() {
  const box = $("comparison"), {first, second} = state;
  box.replaceChildren(make("h2", first === null || second === null ? "Two configurations, seed by seed" : `${all[first].label} against ${all[second].label}, seed by seed`));
  if (first === null || second === null)
    return box.append(make("p", C > 1 ? "Click a curve, a row or a point to choose the two configurations that are compared." : "There is one configuration alone.", {class: "note"}));
  const found = GROUPS.map(group => compared(first, second, group)).filter(one => one !== null);
  const most = d3.max(found.flatMap(one => [one.low, one.high, one.difference, ...one.differences]).filter(Number.isFinite), Math.abs) || 1;
  const sign = {minimize: "below 0 A is better", maximize: "above 0 A is better"}[page.metrics[state.m].direction];
  if (found.length) box.append(make("p", verdict(found[0], first, second), {class: "verdict"}));
  box.append(
    make("p", `A is ${all[first].label} (${describe(first)}). B is ${all[second].label} (${describe(second)}).`),
    rows(["at lengths", "median A", "median B", "A - B", "interval (at least 95 %)", "each seed", "pairs of seeds", "p"], found.map(one => [
      `${one.group} ${spans(one.lengths)}`, digits(one.medians[0]), digits(one.medians[1]), signed(one.difference),
      Number.isNaN(one.low) ? "-" : `${signed(one.low)} to ${signed(one.high)}`, interval(one.difference, one.low, one.high, most, one.differences.filter(Number.isFinite)),
      one.paired ? String(one.n) : "not paired", Number.isNaN(one.p) ? "-" : one.p.toPrecision(3),
    ])),
    make("p", `Differences of ${metricName()} at the judged evaluation${sign ? `; ${sign}` : ""}. Of each pair of equal seeds; the interval lies between two of the sorted differences and assumes no distribution, p is that of the exact sign test. `
      + (page.fresh ? "These seeds are fresh: no search ranked by them." : "Neither is corrected for how the pair was picked: the first by rank is partly luck, and only fresh seeds (lengthwise confirm) favour none.")
      + [...new Set(found.map(one => one.reason).filter(Boolean))].map(reason => ` ${reason[0].toUpperCase()}${reason.slice(1)}.`).join(""), {class: "note"}));
  found.forEach((one, place) => Object.assign(box.querySelectorAll("tbody tr")[place].dataset, {group: one.group, difference: one.difference, low: one.low, high: one.high, level: one.level, p: one.p, n: one.n}));
}

// The outcome against each hyperparameter, that with the strongest effect first.
const strength = name => Math.max(0, ...page.effects.filter(one => one.name === name).map(one => one.correlation[1] === null ? 0 : Math.abs(one.correlation[0])));
const shorter = value => typeof value === "number" ? d3.format("~g")(+value.toPrecision(3)) : value.length > 14 ? `${value.slice(0, 13)}...` : value;
function outcomeScale(height, top) {
  const known = all.map(one => one[state.outcome]).filter(value => value !== null), log = isDecades(known);
  const [least, most] = known.length ? d3.extent(known) : [1, 2];
  const scale = (log ? d3.scaleLog() : d3.scaleLinear()).domain(least < most ? [least, most] : [least >= 0 && !log ? Math.max(0, least - 0.1) : least - 0.1, most + 0.1]).range([height, top]);
  return Object.assign(log ? scale : scale.nice(), {log});
}
// Drop the labels of an axis that would overlap the label before them; their ticks stay.
function dropOverlapping(axis, [from, to, gap] = ["left", "right", 4]) {
  const labels = axis.selectAll(".tick text").nodes().filter(text => text.textContent)
    .map(text => ({text, box: text.getBoundingClientRect()})).sort((label, other) => label.box[from] - other.box[from]);
  let end = -Infinity;
  for (const {text, box} of labels) if (box.width && box[from] < end + gap) text.remove(); else end = box[to];
}
const ON_HEIGHT = ["top", "bottom", -3]; // of a vertical axis: boxes have room above and below the digits
function drawPoints() {
  const box = $("points");
  box.replaceChildren();
  const name = `${page.judged.metric} (${page.judged.average})`;
  $("outcome-note").textContent = `${name}, median over seeds of the ${lengthsAt(state.outcome).match(/^ \d+$/) ? `value at the ${state.outcome} length` : `mean over the ${state.outcome} lengths`}${lengthsAt(state.outcome)}, for each configuration.`;
  const shown = axes.filter(one => !one.outcome).toSorted((one, other) => strength(other.name) - strength(one.name));
  const most = Math.max(box.clientWidth < 560 ? 2 : 1, Math.floor(box.clientWidth / 254)), each = Math.ceil(shown.length / Math.ceil(shown.length / most));
  box.style.gridTemplateColumns = `repeat(${each}, minmax(0, 1fr))`;
  for (const [place, axis] of shown.entries()) {
    const height = 180, left = 58, bottom = 36, top = 8, wide = Math.max(220, Math.min((box.clientWidth - 24 * (each - 1)) / each, 340)), x = axis.scale.copy().range([left + 8, wide - 12]), y = outcomeScale(height - bottom - BELOW, top + ABOVE);
    const svg = d3.select(box).append("svg").attr("width", "100%").attr("viewBox", [0, 0, wide, height]).attr("role", "img").attr("aria-label", `${state.outcome} outcome against ${axis.name}`);
    const ticks = axis.number ? d3.axisBottom(x).ticks(4).tickValues(axis.ticks).tickFormat(axis.ticks ? shorter : axis.log ? logTicks(x) : d3.format("~g")) : d3.axisBottom(x).tickFormat(shorter);
    svg.append("g").attr("transform", `translate(0,${height - bottom})`).call(ticks.tickSizeOuter(0)).call(dropOverlapping);
    svg.append("g").attr("transform", `translate(${left})`).call(d3.axisLeft(y).ticks(4).tickFormat(y.log ? logTicks(y) : d3.format("~g"))).call(dropOverlapping, ON_HEIGHT);
    svg.append("text").attr("class", "title").attr("x", (left + wide) / 2).attr("y", height - 3).attr("text-anchor", "middle").text(axis.name);
    svg.append("text").attr("class", "title").attr("transform", `translate(11,${(top + height - bottom) / 2}) rotate(-90)`).attr("text-anchor", "middle").text(state.outcome);
    const known = d3.range(C).filter(c => axis.values[c] !== null && all[c][state.outcome] !== null).reverse();
    const spread = c => axis.number && !axis.ticks ? 0 : ((c * 7) % 11 - 5) * 1.6; // equal values side by side
    pointable(svg.append("g").selectAll("circle").data(known).join("circle")).attr("class", c => `dot${isIn(c) ? "" : " out"}`)
      .attr("cx", c => x(axis.values[c]) + spread(c)).attr("cy", c => y(all[c][state.outcome])).attr("r", c => marker(c) ? 6 : 4.2).attr("fill", colour)
      .append("title").text(c => `${all[c].label}: ${axis.name} ${shorter(axis.values[c])}, ${digits(all[c][state.outcome])}`);
    const edge = ABOVE ? top + 6 : height - bottom - 6;
    if (STRIP) svg.append("text").attr("class", "failed").attr("x", left - 6).attr("y", edge + 4).attr("text-anchor", "end").text("failed");
    cross(svg, failed.filter(c => axis.values[c] !== null), c => [x(axis.values[c]) + spread(c), edge + 5])
      .append("title").text(c => `${all[c].label}: ${axis.name} ${shorter(axis.values[c])}, failed`);
    if (!place) svg.attr("data-outcome", state.outcome);
  }
}

// All hyperparameters side by side, with ranges to keep.
function drawParallel() {
  const box = $("parallel");
  box.replaceChildren();
  if (axes.length < 2) return;
  const width = Math.max(box.parentElement.clientWidth, axes.length * 84), height = 270, top = 30 + ABOVE, bottom = 14 + BELOW, right = 30;
  const at = axes.map(axis => axis.scale.copy().range([height - bottom, top]));
  const ticked = place => d3.axisLeft(at[place]).ticks(5).tickValues(axes[place].ticks).tickFormat(!axes[place].number || axes[place].ticks ? shorter : axes[place].log ? logTicks(at[place]) : d3.format("~g"));
  const svg = d3.select(box).append("svg").attr("width", width).attr("height", height).attr("viewBox", [0, 0, width, height]);
  const widest = svg.append("g").call(ticked(0)), left = Math.max(46, 14 + (d3.max(widest.selectAll(".tick text").nodes(), text => text.getComputedTextLength()) || 0));
  widest.remove(); // drawn to measure its labels
  const x = d3.scalePoint(axes.map(one => one.name), [left, width - right]);
  const edge = ABOVE ? top - 12 : height - bottom + 14, isLost = (axis, c) => axis.outcome && all[c].state === "failed";
  const line = c => d3.line().defined(value => value !== null)(axes.map((axis, place) =>
    isLost(axis, c) ? [x(axis.name), edge] : axis.values[c] === null ? null : [x(axis.name), at[place](axis.values[c])]));
  pointable(svg.append("g").selectAll("path").data(d3.range(C).reverse()).join("path"))
    .attr("class", c => `ray${marker(c) ? " chosen" : ""}${all[c].state === "failed" ? " failed" : ""}${isIn(c) ? "" : " out"}`).attr("stroke", colour).attr("d", line);
  const part = pixel => (height - bottom - pixel) / (height - bottom - top);
  axes.forEach((axis, place) => {
    if (axis.outcome && STRIP) {
      cross(svg, failed, () => [x(axis.name), edge + 5]);
      svg.append("text").attr("class", "failed").attr("x", x(axis.name) - 9).attr("y", edge + 4).attr("text-anchor", "end").text("failed");
    }
    const group = svg.append("g").attr("class", "axis").attr("transform", `translate(${x(axis.name)})`), kept = state.filters[axis.name];
    group.call(ticked(place)).call(dropOverlapping, ON_HEIGHT);
    const pixels = kept && [height - bottom - kept[1] * (height - bottom - top), height - bottom - kept[0] * (height - bottom - top)];
    const brush = d3.brushY().extent([[-12, top], [12, height - bottom]]).on("end", event => {
      if (!event.sourceEvent) return;
      if (event.selection) state.filters[axis.name] = [part(event.selection[1]), part(event.selection[0])]; else delete state.filters[axis.name];
      update();
    });
    const area = group.append("g").attr("class", "brush").attr("data-axis", axis.name).call(brush);
    if (pixels) area.call(brush.move, pixels);
    group.append("text").attr("class", "axis-name").attr("y", 14).attr("text-anchor", place ? place === axes.length - 1 ? "end" : "middle" : "start").attr("x", place ? place === axes.length - 1 ? right : 0 : 10 - left).text(axis.outcome ? `${axis.name}${lengthsAt(axis.name)}` : axis.name)
      .attr("tabindex", 0).attr("role", "slider").attr("aria-label", `keep a range of ${axis.name}`).attr("aria-valuetext", kept ? `${Math.round(100 * kept[0])} to ${Math.round(100 * kept[1])} % of the axis` : "all")
      .attr("data-slider", axis.name).on("click", () => { delete state.filters[axis.name]; update(); }).on("keydown", event => {
        const move = {ArrowUp: 0.05, ArrowDown: -0.05}[event.key], ends = kept ? [...kept] : [0, 1];
        if (event.key !== "Escape" && !move) return;
        event.preventDefault();
        const end = event.shiftKey ? 0 : 1;
        ends[end] = Math.max(end ? ends[0] : 0, Math.min(end ? 1 : ends[1], ends[end] + (move || 0)));
        if (move && (ends[0] > 0 || ends[1] < 1)) state.filters[axis.name] = ends; else delete state.filters[axis.name];
        update();
        document.querySelector(`[data-slider="${CSS.escape(axis.name)}"]`).focus();
      });
  });
}

// The effects of hyperparameters on the chosen outcome, with their intervals, the strongest first.
function drawEffects() {
  const at = page.effects.filter(one => one.at.startsWith(state.outcome)), effects = at.length ? at : page.effects;
  const box = $("effects"), bounded = one => one.p !== null || [one.correlation, ...[...one.differences, ...one.slopes].map(found => found.ends)].some(ends => ends[1] !== null);
  const why = effects.some(bounded) ? "" : page.no_effects || (effects.length ? `No effect has an interval or a test: ${[...new Set(effects.map(one => one.reason).filter(Boolean))].join("; ")}.` : "");
  if (!effects.some(bounded)) { box.replaceChildren(...(why ? [make("h3", "Effects"), make("p", why)] : [])); return; }
  const text = ([value, low, high]) => value === null ? "-" : low === null ? signed(value) : `${signed(value)} [${signed(low)}, ${signed(high)}]`;
  const body = [], steepest = d3.max(effects.flatMap(one => one.slopes.flatMap(slope => slope.ends)), Math.abs) || 1;
  const furthest = d3.max(effects.flatMap(one => one.differences.flatMap(found => found.ends)), Math.abs) || 1;
  const cell = (line, most, alone) => {
    const box = make("div", undefined, {class: "effect"});
    if (line && line.ends[0] !== null) box.append(make("span", `${line.value ? `${line.value}: ` : ""}${text(line.ends)}`), interval(...line.ends, most, [], alone));
    return box;
  };
  for (const one of effects.toSorted((x, y) => strength(y.name) - strength(x.name))) {
    const alone = [...(one.correlation[0] === null ? [] : [{value: "", ends: one.correlation, most: 1}]), ...one.differences.map(found => ({...found, most: furthest}))];
    for (let n = 0; n < Math.max(1, alone.length, one.slopes.length); n++)
      body.push([n ? "" : one.name + (one.alone ? "" : " *"), n ? "" : one.at, alone[n] ? cell(alone[n], alone[n].most, one.alone) : n ? "" : one.p === null ? one.reason : `${one.test}: p = ${one.p.toPrecision(3)}`, cell(one.slopes[n], steepest, one.alone), n ? "" : one.n,
        n || one.importance === null ? "" : one.importance.toFixed(2)]);
  }
  const rises = page.metrics[0].direction === "maximize" ? "better" : "worse";
  const many = effects.flatMap(one => [one.correlation, ...one.differences.map(found => found.ends), ...one.slopes.map(slope => slope.ends)]).filter(ends => ends[1] !== null).length;
  box.replaceChildren(make("h3", "Effects, with 95 % intervals"),
    make("p", `Right of the dashed line: the outcome rises with the hyperparameter, which is ${rises}. A filled square marks an interval without 0; an interval that contains 0 is inconclusive. `
      + (many ? `The ${many} intervals are not corrected for their number: if nothing has an effect, about ${d3.format("~g")(0.05 * many)} would exclude 0 by chance.` : "")
      + (effects.every(one => one.alone) ? "" : " * Other hyperparameters vary together with this one and may cause the difference."), {class: "note"}),
    rows(["hyperparameter", "at lengths", "rank correlation or difference", "others held fixed (standardised slope)", effects[0].unit, ...(effects.some(one => one.importance !== null) ? ["importance"] : [])], body));
}

function drawControls() {
  for (const [id, names, place] of [["metric", page.metrics.map(one => one.name), state.m], ["average", page.averages, state.a]]) {
    $(id).replaceChildren(...names.map((name, n) => make("option", name, {value: n})));
    $(id).value = place;
  }
  $("scale").value = state.scale;
  $("outcome").value = state.outcome;
  const slider = $("evaluation"); // the judged evaluation stands at the right end
  slider.max = page.steps.length;
  slider.value = state.e ? state.e - 1 : page.steps.length;
  const where = state.e ? `step ${d3.format(",")(page.steps[state.e - 1])}` : page.running ? "the latest" : "that of the ranking";
  $("step").textContent = where;
  slider.setAttribute("aria-valuetext", where);
}
// A box that continues beyond its right edge says so; that of the main table names the columns.
function markWide() {
  document.querySelectorAll(".scroll, .wide").forEach(box => box.toggleAttribute("data-wide", box.scrollWidth > box.clientWidth + 1 && !box.contains($("table"))));
}
function update() {
  pointed = null;
  document.body.classList.remove("pointed");
  drawControls(); drawCurves(); drawTable(); drawComparison(); drawPoints(); drawParallel(); drawEffects(); readOut(); markWide(); save();
}

const on = (id, event, change) => $(id).addEventListener(event, () => { change($(id)); update(); });
on("metric", "change", box => { state.m = +box.value; state.scale = page.metrics[state.m].log ? "log" : "linear"; });
on("average", "change", box => { state.a = +box.value; });
on("scale", "change", box => { state.scale = box.value; });
on("outcome", "change", box => { state.outcome = box.value; });
on("evaluation", "input", box => { state.e = +box.value === page.steps.length ? 0 : +box.value + 1; });
on("every", "click", () => { state.every = 1 - state.every; });
on("clear", "click", () => { state.filters = {}; });
document.querySelectorAll('a[href^="#"]').forEach(link => link.addEventListener("click", event => { // the address keeps what is chosen
  event.preventDefault();
  document.querySelector(link.getAttribute("href")).scrollIntoView();
}));
document.querySelectorAll("form").forEach(form => form.addEventListener("submit", event => event.preventDefault()));

// The sentence on the first by rank ends with its comparison with the next.
if (ranked.length > 1) {
  const lead = GROUPS.map(group => compared(ranked[0], ranked[1], group)).find(one => one !== null);
  if (lead) document.querySelectorAll(".answers p")[1]?.append(make("span", ` ${verdict(lead, ranked[0], ranked[1])}`, {id: "lead"}));
}
const y = load();
const hasOutcome = all.some(one => one.selection !== null || one.test !== null);
if (!hasOutcome || !axes.some(one => !one.outcome)) $("hyperparameters").hidden = true;
if (!all.some(one => one.test !== null)) $("outcome").closest("form").hidden = true;
update();
if (y) scrollTo(0, y);
let width = innerWidth, due;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; clearTimeout(due); due = setTimeout(update, 100); } });
addEventListener("beforeprint", () => {
  state.every = 1;
  document.querySelectorAll("details").forEach(folded => { folded.open = true; });
  update();
});

// A running sweep writes this file anew: load it again, unless somebody is dragging.
let held = false;
addEventListener("pointerdown", () => { held = true; });
addEventListener("pointerup", () => { held = false; });
if (page.running) setInterval(() => { if (!held) { save(scrollY || 1); location.reload(); } }, 10000);
})();
