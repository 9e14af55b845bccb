// Two configurations over their seeds, as orchestrator/statistics/two_samples.py compares them.
const binomial = (n, k) => d3.range(1, k + 1).reduce((product, i) => product * (n - k + i) / i, 1);
const binomialCdf = (n, k) => d3.sum(d3.range(k + 1), i => binomial(n, i)) / 2 ** n; // P(X <= k), X ~ B(n, 1/2)
const medianOf = values => {
  const sorted = Float64Array.from(values).sort(), n = sorted.length, low = sorted[(n - 1) >> 1], high = sorted[n >> 1];
  return !n ? NaN : low === high ? low : (low + high) / 2; // two infinite ones have an infinite median
};
const difference = (x, y) => x === y ? 0 : x - y; // 0 also for two failed seeds, whose values are infinite
const countTrue = flags => d3.sum(flags, Number);

// The outcome of a seed: its curve at the lengths, reduced as the selection does; NaN if a value is missing.
const reduceCurve = (m, a, c, s, lengths, reduction) => {
  const curve = seedCurve(m, a, c, s), values = lengths.map(length => curve[lengthsOf(m).indexOf(length)]);
  if (values.some(Number.isNaN)) return NaN;
  if (reduction === "max") return d3.max(values);
  return reduction === "last" ? values.at(-1) : d3.sum(values) / values.length;
};

// A failed seed counts as the worst value, if the sweep says so.
const failedValueOf = m => {
  const worst = {minimize: Infinity, maximize: -Infinity}[page.metrics[m].direction] ?? NaN;
  return page.judged.policy === "worst" ? worst : NaN;
};

function arePaired(c, d) {
  const [seeds, others] = [configurations[c].seeds, configurations[d].seeds];
  const [i, j] = [page.pairing.classes[c], page.pairing.classes[d]];
  const shareData = i === j || page.pairing.paired.some(pair => pair.includes(i) && pair.includes(j));
  const common = seeds.filter(seed => others.includes(seed)).length;
  return shareData && common > 0 && (common === Math.min(seeds.length, others.length) || common >= page.min_pairs);
}

// The comparison of c with d at a group of lengths; null if they have none in common. `difference`, the median
// difference over seeds, has an exact interval [low, high] of confidence `level`; `reason` says why it may lack one.
// `bothFailed` and `oneFailed` count pairs; the former tie, but `shown` has the differences of all other pairs alone.
function compareSeeds(c, d, group) {
  const m = state.metric, metric = page.metrics[m], {policy} = page.judged;
  const [lengths, otherLengths] = [c, d].map(side => groupsOf(side, m)[group] || []);
  const common = lengths.filter(length => otherLengths.includes(length));
  if (!common.length) return null;

  // The outcomes of seeds.
  const reduction = group === "selection" && metric.name === page.judged.metric ? page.judged.reduce : "mean";
  const failedValue = failedValueOf(m);
  const outcomes = [c, d].map(side => configurations[side].seeds.map((seed, s) => [seed, reduceCurve(m, state.average, side, s, common, reduction)]));
  const [first, second] = outcomes.map(side => new Map(
    side.map(([seed, value]) => [seed, Number.isNaN(value) ? failedValue : value]).filter(([, value]) => !Number.isNaN(value))));
  const medians = [medianOf(first.values()), medianOf(second.values())], paired = arePaired(c, d);
  const comparison = {group, lengths: common, medians, paired, differences: [], shown: [], bothFailed: 0, oneFailed: 0, difference: NaN, low: NaN, high: NaN, level: NaN, p: NaN, n: 0, reason: ""};
  if (policy === "fail" && outcomes.flat().some(([, value]) => Number.isNaN(value)))
    return {...comparison, reason: "a seed failed, and with it the configuration"};
  if (outcomes.flat().length && outcomes.flat().every(([, value]) => Number.isNaN(value)))
    return {...comparison, medians: [NaN, NaN], reason: "no seed of either has a value"};
  if (!paired)
    return {...comparison, difference: difference(...medians), reason: "the seeds are not paired, so there is no interval"};

  // The interval lies between two of the sorted differences (as the inverted sign test).
  const seeds = [...first.keys()].filter(seed => second.has(seed)), differences = seeds.map(seed => difference(first.get(seed), second.get(seed)));
  const [failedFirst, failedSecond] = outcomes.map(side => new Set(side.filter(([, value]) => Number.isNaN(value)).map(([seed]) => seed)));
  const failures = seeds.map(seed => failedFirst.has(seed) + failedSecond.has(seed));
  const sorted = Float64Array.from(differences).sort(), n = sorted.length;
  Object.assign(comparison, {
    differences, n, difference: medianOf(sorted), shown: differences.filter((_, index) => failures[index] < 2),
    bothFailed: countTrue(failures.map(count => count === 2)), oneFailed: countTrue(failures.map(count => count === 1)),
  });
  if (!n) return {...comparison, reason: "no seed has a value in both"};
  let dropped = -1; // of the sorted differences at either end
  while (n >= page.min_pairs && 1 - 2 * binomialCdf(n, dropped + 1) >= 0.95) dropped++;
  if (dropped >= 0)
    Object.assign(comparison, {low: sorted[dropped], high: sorted[n - 1 - dropped], level: 1 - 2 * binomialCdf(n, dropped)});
  else comparison.reason = `${n} pair${n === 1 ? " of seeds is" : "s of seeds are"} too few for an interval (at least ${page.min_pairs})`;

  // The sign test; a difference of 0 counts for both signs.
  const rarer = Math.min(differences.filter(x => x <= 0).length, differences.filter(x => x >= 0).length);
  comparison.p = Math.min(1, 2 * binomialCdf(n, rarer));
  return comparison;
}

// A small picture of an interval around 0, from -limit to limit, below the differences of seeds as dots. Its square is
// filled if it excludes 0 and may be read as an effect. Infinite numbers are arrows at the edge.
function drawInterval(value, low, high, limit, {dots = [], mayFill = true, width = 130} = {}) {
  const height = 22, middle = dots.length ? 15 : height / 2, x = d3.scaleLinear([-limit, limit], [14, width - 14]);
  const isInfinite = end => Math.abs(end) === Infinity, edge = end => end > 0 ? width - 1 : 1;
  const hasInterval = low !== null && !Number.isNaN(low), hasValue = value !== null && !Number.isNaN(value);
  const svg = d3.create("svg").attr("width", width).attr("height", height).attr("role", "img")
    .attr("aria-label", hasInterval ? `${formatSigned(value)}, from ${formatSigned(low)} to ${formatSigned(high)}` : formatSigned(value));
  svg.append("line").attr("x1", x(0)).attr("x2", x(0)).attr("y1", 1).attr("y2", height - 1)
    .attr("stroke", "#9aa4af").attr("stroke-dasharray", "2 2");
  const drawArrow = (end, y, size) => svg.append("path").attr("class", `beyond ${end > 0 ? "above" : "below"}`)
    .attr("d", `M${edge(end) - Math.sign(end) * 1.6 * size},${y - size}L${edge(end)},${y}l${-Math.sign(end) * 1.6 * size},${size}Z`);
  svg.selectAll("circle").data(dots.filter(Number.isFinite)).join("circle").attr("cx", dot => x(dot)).attr("cy", 5).attr("r", 2.4)
    .attr("fill", "#8a94a0").attr("opacity", .7);
  for (const dot of dots.filter(isInfinite)) drawArrow(dot, 5, 2.4).attr("fill", "#8a94a0").attr("opacity", .7);
  if (hasInterval) {
    const [from, to] = [low, high].map(end => isInfinite(end) ? edge(end) : x(end));
    svg.append("line").attr("class", "interval").attr("x1", from).attr("x2", to).attr("y1", middle).attr("y2", middle)
      .attr("stroke", "#1c2127").attr("stroke-width", 2);
    for (const end of [low, high].filter(isInfinite)) drawArrow(end, middle, 3).attr("fill", "#1c2127");
  }
  if (isInfinite(value)) drawArrow(value, middle, 4.5).attr("fill", mayFill && (low > 0 || high < 0) ? "#1c2127" : "#fff").attr("stroke", "#1c2127");
  else if (hasValue)
    svg.append("rect").attr("x", x(value) - 3.5).attr("y", middle - 3.5).attr("width", 7).attr("height", 7)
      .attr("fill", mayFill && (low > 0 || high < 0) ? "#1c2127" : "#fff").attr("stroke", "#1c2127").attr("stroke-width", 1.5);
  return svg.node();
}

// The differences of A and B at each length in common: of each pair of seeds a thin line, and their median at each length.
// Null without pairs of seeds, or with less than two lengths. Infinite differences are gaps, as in the curves.
function drawDifferences(c, d, available) {
  const m = state.metric, groups = Object.fromEntries(GROUPS.map(group => {
    const others = groupsOf(d, m)[group] || [];
    return [group, (groupsOf(c, m)[group] || []).filter(length => others.includes(length))];
  }));
  const lengths = lengthsOf(m).filter(length => GROUPS.some(group => groups[group].includes(length)));
  if (lengths.length < 2 || !arePaired(c, d)) return null;
  const valuesOf = (side, seed) => {
    const values = seedCurve(m, state.average, side, configurations[side].seeds.indexOf(seed));
    return lengths.map(length => values[lengthsOf(m).indexOf(length)]).map(value => Number.isNaN(value) ? failedValueOf(m) : value);
  };
  const pairs = configurations[c].seeds.filter(seed => configurations[d].seeds.includes(seed)).map(seed => {
    const others = valuesOf(d, seed);
    return {seed, values: valuesOf(c, seed).map((value, index) => difference(value, others[index]))};
  });
  const isLostInBoth = seed => [c, d].every(side => seedCurve(m, state.average, side, configurations[side].seeds.indexOf(seed)).every(Number.isNaN));
  const medians = lengths.map((_, index) => medianOf(pairs.map(({values}) => values[index]).filter(value => !Number.isNaN(value))));
  const finite = pairs.flatMap(({values}) => values).filter(Number.isFinite);
  if (!finite.length || (page.judged.policy === "fail" && (configurations[c].failed || configurations[d].failed))) return null;

  // The axes, and a dashed line at 0.
  const width = Math.max(280, Math.min(available, 640)), height = 220, top = 24, bottom = height - 42;
  const svg = d3.create("svg").attr("width", width).attr("height", height).attr("viewBox", [0, 0, width, height]).attr("class", "differences")
    .attr("role", "img").attr("aria-label", `A minus B in ${metricName()} against ${page.axis}`);
  const [low, high] = d3.extent([0, ...finite]), least = isShare(m) ? 0.01 : 0; // one token in thousands does not fill the picture
  const domain = high - low < least ? [low - (least - high + low) / 2, high + (least - high + low) / 2] : low < high ? [low, high] : [-1, 1];
  const y = d3.scaleLinear(domain, [bottom, top]).nice();
  const axis = d3.axisLeft(y).ticks(5).tickFormat(linearTickFormat(y));
  const left = 36 + 6.5 * d3.max(y.ticks(5), tick => linearTickFormat(y)(tick).length); // it is not in the page yet, so nothing can be measured
  const x = d3.scaleLinear([lengths[0] - 0.5, lengths.at(-1) + 0.5], [left, width - 14]), path = makePath(x, y, lengths, Number.isFinite);
  shadeLengths(svg, x, lengths, groups, top, bottom);
  drawLengthAxis(svg, x, lengths, bottom, height);
  svg.append("g").attr("class", "values").attr("transform", `translate(${left})`).call(axis);
  svg.append("text").attr("class", "title").attr("text-anchor", "middle")
    .attr("transform", `translate(13,${(top + bottom) / 2}) rotate(-90)`).text("A - B");
  svg.append("line").attr("x1", left).attr("x2", width - 14).attr("y1", y(0)).attr("y2", y(0)).attr("stroke", "#5b6570").attr("stroke-dasharray", "4 3");

  // The lines.
  svg.append("g").selectAll("path").data(pairs).join("path").attr("class", "seed").attr("data-seed", ({seed}) => seed)
    .attr("stroke", "#1c2127").attr("d", ({seed, values}) => isLostInBoth(seed) ? null : path(values));
  svg.append("path").attr("class", "median").attr("stroke", "#1c2127").attr("d", path(medians));
  return svg.node();
}

// What the lines are, and how many pairs have an empty line, because none of their differences is finite.
function describePicture(picture) {
  const lines = [...picture.querySelectorAll(".seed")], missing = lines.filter(line => !line.getAttribute("d")).length;
  const note = missing ? ` ${missing} of ${lines.length} pairs have no line, because a seed failed or never reached the metric.` : "";
  const failures = missing ? "the median of all pairs, with failed seeds as the worst" : "their median";
  return `Thin lines: pairs of equal seeds; thick line: ${failures}; dashed: no difference.${note}`;
}

// Which side is better, or lower without a better direction; as `verdict` in results/comparing/seed_comparisons.py. A tie
// of two failed seeds is no evidence that both sides are equal. "none" without an interval.
const isAtEnd = ({medians: [first, second]}) => first === second && (first === 0 || first === 1);
function judge({medians, differences, low, high, n, bothFailed}) {
  if (Number.isNaN(low)) return "none";
  if (low === 0 && high === 0 && isAtEnd({medians})) return "inconclusive";
  const ties = countTrue(differences.map(value => value === 0));
  if (low === 0 && high === 0) return !bothFailed || ties - bothFailed > Math.max(1, n - ties) ? "equal" : "inconclusive";
  if (!(low > 0 || high < 0)) return "inconclusive";
  return (low > 0) === (page.metrics[state.metric].direction === "maximize") ? "first" : "second";
}

// Whether the compared seeds also chose one of the two as the first of the sweep, as `find_chosen` in
// results/selection_bias.py decides; and as `is_biased` there, whether that biases what a comparison says.
const isOneChosen = (c, d) => [c, d].includes(ranked[0]) && [c, d].some(side => configurations[side].lost_to_first);
const isBiased = (comparison, c, d) => isOneChosen(c, d) && !["none", "equal"].includes(judge(comparison));

// One sentence on a comparison, as orchestrator/report/tables/seed_comparison_table.py begins `lengthwise compare`.
function describeComparison(comparison, first, second) {
  const {group, lengths, differences, difference, low, high, n, bothFailed, oneFailed, reason} = comparison;
  const labels = [configurations[first].label, configurations[second].label];
  const at = `at the ${group} length${lengths.length > 1 ? "s" : ""} ${formatRanges(lengths)}`;
  const measured = metricName() === judgedName ? "" : ` in ${metricName()}`; // else it is that of every other sentence
  if (Number.isNaN(difference)) return `No verdict ${at}: ${reason}.`;
  const hasFailed = configurations[first].failed || configurations[second].failed; // else a seed has never reached the metric
  const infinity = [low, high].every(Number.isFinite) ? "" : `; inf: ${hasFailed ? "failed seeds" : "never reached"}`;
  const failures = [[bothFailed, "both sides"], [oneFailed, "one side"]].filter(([count]) => count).map(([count, where]) => `${count} of them failed on ${where}`);
  const failedPairs = failures.length ? `; ${failures.join(", ")}` : "";
  const evidence = `95 % interval, ${n} pairs of seeds${failedPairs}${infinity}`;
  if (hasFailed && !Number.isFinite(difference) && Number.isNaN(low)) {
    const failed = [first, second].map((c, n) => `${configurations[c].failed} of ${labels[n]}`).join(" and ");
    return `No verdict ${at}: seeds failed (${failed}), and ${reason}${failedPairs}.`;
  }
  const atEnd = isAtEnd(comparison) ? `; both medians are ${comparison.medians[0]}, where a difference can hardly show` : "";
  const finished = n - bothFailed, ties = countTrue(differences.map(value => value === 0));
  if (finished > 1 && ties === n) {
    const pairs = bothFailed ? `the ${finished} pairs of seeds that finished; ${bothFailed} pair${bothFailed > 1 ? "s" : ""} failed on both sides` : `all ${n} pairs of seeds`;
    const judged = finished < page.min_pairs ? "No verdict" : isAtEnd(comparison) ? "Inconclusive" : "No difference"; // with fewer pairs there is no interval
    return `${judged}${measured} ${at}: equal values in ${pairs}${atEnd}.`;
  }
  const interval = Number.isNaN(low) ? `, but ${reason}${failedPairs}` : ` [${formatSigned(low)}, ${formatSigned(high)}] (${evidence})`;
  const signed = `${labels[0]} minus ${labels[1]}${measured} is ${formatSigned(difference)}${interval}`; // as in every table
  const verdict = judge(comparison), undecided = {none: "No verdict", equal: "No difference", inconclusive: "Inconclusive"};
  if (verdict in undecided) return `${undecided[verdict]} ${at}: ${signed}${atEnd}.`;
  const [better, worse] = verdict === "first" ? labels : labels.toReversed();
  const isLower = page.metrics[state.metric].direction === "none";
  const relation = isLower ? "lower than" : isBiased(comparison, first, second) ? "ahead of" : "better than";
  return `${better} is ${relation} ${worse} ${at}: ${signed}.`;
}

const continueSentence = sentence => sentence[0].toLowerCase() + sentence.slice(1); // after a colon

function drawComparison() {
  const box = $("comparison"), {first, second} = state;
  if (first === null || second === null) {
    const note = make("p", C > 1 ? "Click a curve, a row or a point" : "There is one configuration alone.", {class: "note"});
    if (C > 1) note.append(make("span", ", or press Enter at a curve or a row,", {class: "keys"}), " to choose the two configurations that are compared.");
    return box.replaceChildren(make("h2", "Two configurations, seed by seed"), note);
  }
  const comparisons = GROUPS.map(group => compareSeeds(first, second, group)).filter(comparison => comparison !== null);
  const labels = [configurations[first].label, configurations[second].label];
  const swap = make("button", "Swap A and B", {type: "button", class: "screen"}); // with it, a finger chooses A as well
  swap.addEventListener("click", () => {
    [state.first, state.second] = [second, first];
    update();
    focusAgain("#comparison button");
  });
  box.replaceChildren(make("h2", `${labels[0]} against ${labels[1]}, seed by seed`));
  const isJudged = metricName() === judgedName;
  const answers = isJudged ? page.confirmed_pairs.filter(pair => labels.every(label => pair.labels.includes(label))) : [];
  if (comparisons.length) {
    const isBiasedPair = isBiased(comparisons[0], first, second), bias = isBiasedPair ? " (biased)" : "";
    const seeds = isBiasedPair || (page.confirmed && isOneChosen(first, second)) ? `On the seeds that chose ${configurations[ranked[0]].label}${bias}: `
      : answers.length ? "In the search: " : "";
    const sentence = describeComparison(comparisons[0], first, second);
    const verdict = seeds ? seeds + continueSentence(sentence) : sentence;
    box.append(make("p", [verdict, ...answers.map(({sentence}) => sentence)].join(" "), {class: "verdict"}));
  }

  const isPaired = comparisons.some(({paired}) => paired);

  // The table: a row for each group of lengths. Each picture has its own scale, because differences may grow tenfold with length.
  const limitOf = ({low, high, difference, differences}) =>
    d3.max([low, high, difference, ...differences].filter(Number.isFinite), Math.abs) || 1;
  const isPhone = innerWidth <= 500 && !isPaper, width = innerWidth < 700 || isPaper ? 160 : 280;
  const rows = comparisons.map(comparison => {
    const {group, lengths, medians, difference, low, high, shown, paired, n, bothFailed, p} = comparison;
    return {
      "at lengths": `${group} ${formatRanges(lengths)}`, "median A": formatNumber(medians[0]), "median B": formatNumber(medians[1]),
      [isPaired ? "median of A - B" : "A - B"]: formatSigned(difference),
      "95 % interval": Number.isNaN(low) ? "-" : `${formatSigned(low)} to ${formatSigned(high)}`,
      "each seed": drawInterval(difference, low, high, limitOf(comparison), {dots: shown, width}),
      "pairs of seeds": !paired ? "not paired" : bothFailed ? `${n}, ${bothFailed} failed in both` : String(n), p: Number.isNaN(p) ? "-" : p.toPrecision(3),
    };
  });
  const isMedian = name => /^median [AB]$/.test(name), isBelow = name => isPhone && ["each seed", "p"].includes(name);
  const names = Object.keys(rows[0] ?? {}).filter(name => !isBelow(name));
  if (isPhone) names.sort((name, other) => isMedian(name) - isMedian(other)); // it shows few columns
  const table = makeTable(names, rows.map(row => names.map(name => row[name])));
  table.querySelectorAll("tbody tr").forEach((row, index) => {
    const {group, difference, low, high, level, p, n} = comparisons[index];
    Object.assign(row.dataset, {group, difference, low, high, level, p, n});
    if (!isPhone) return;

    // On a phone the picture and p have a line of their own below the row.
    const line = make("tr"), cell = make("td", undefined, {class: "below", colspan: names.length});
    cell.append("each seed: ", rows[index]["each seed"], ` p: ${rows[index].p}`);
    line.append(cell);
    row.after(line);
  });

  // The picture; then what the numbers are, and what they are not corrected for.
  const picture = drawDifferences(first, second, widthOf(box));
  const sign = {minimize: "below 0 A is better", maximize: "above 0 A is better"}[page.metrics[state.metric].direction];
  const hasFailed = [first, second].some(c => configurations[c].failed) && !Number.isNaN(failedValueOf(state.metric));
  const reasons = [...new Set(comparisons.map(({reason}) => reason).filter(Boolean))];
  box.append(
    make("p", `A is ${labels[0]} (${describe(first)}). B is ${labels[1]} (${describe(second)}).`),
    swap,
    table,
    ...(picture ? [make("h3", `A - B at each length${sign ? ` (${sign})` : ""}`), picture, make("p", describePicture(picture), {class: "note"})] : []),
    make("p", [
      `Differences of ${metricName()} at the judged evaluation${sign ? `; ${sign}` : ""}; each picture of the seeds has its own scale.`,
      ...(isPaired ? ["Seeds are subtracted pair by pair, so the median of A - B need not be the difference of the medians; the interval lies between two of the sorted differences (at least 95 % for any distribution), p is that of the exact sign test."] : []),
      page.has_fresh_seeds ? "These seeds are fresh: no search ranked by them."
        : isOneChosen(first, second) ? `${configurations[ranked[0]].label} was ranked first on these same seeds, so its lead is partly luck. ${page.confirmed ? "The sentences at the top have the answer of fresh seeds." : "For a fair test: lengthwise confirm."}`
        : "Neither interval nor p is corrected for how the pair was picked.",
      ...(hasFailed ? [`A failed seed counts as the worst value (${formatNumber(failedValueOf(state.metric))}); seeds that failed in both tie.`] : []),
      ...reasons.map(reason => `${reason[0].toUpperCase()}${reason.slice(1)}.`),
    ].join(" "), {class: "note"}));
}
