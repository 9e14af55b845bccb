// Two configurations compared over their seeds, as orchestrator/statistics/two_samples.py does it, and the verdict in
// words.

// Return P(X <= k) of X ~ B(n, 1/2). Terms are logarithms, because 2 ** 1024 is infinite.
function binomialCdf(n, k) {
  let sum = 0, logTerm = -n * Math.LN2;
  for (let i = 0; i <= k; i++) {
    sum += Math.exp(logTerm);
    logTerm += Math.log((n - i) / (i + 1));
  }
  return sum;
}

// Return the median of values, NaN without any.
const medianOf = values => {
  const sorted = Float64Array.from(values).sort(), n = sorted.length;
  return (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2;
};

// Return x - y; 0 also for two failed seeds, whose values are infinite.
const difference = (x, y) => x === y ? 0 : x - y;

// Return how many flags are true.
const countTrue = flags => d3.sum(flags, Number);

// Return the outcome of a seed: its curve at the lengths, reduced as the selection does; NaN if a value is missing.
const reduceCurve = (m, a, c, s, lengths, reduction) => {
  const curve = seedCurve(m, a, c, s), values = lengths.map(length => curve[lengthsOf(m).indexOf(length)]);
  if (values.some(Number.isNaN)) return NaN;
  if (reduction === "max") return d3.max(values);
  return reduction === "last" ? values.at(-1) : d3.sum(values) / values.length;
};

// Return the value of a failed seed: the worst one, if the sweep says so, else NaN.
const failedValueOf = m => {
  const worst = {minimize: Infinity, maximize: -Infinity}[page.metrics[m].direction] ?? NaN;
  return page.judged.policy === "worst" ? worst : NaN;
};

// Return the lengths of a group that two configurations have in common.
const listCommon = (c, d, m, group) => {
  const others = groupsOf(d, m)[group] || [];
  return (groupsOf(c, m)[group] || []).filter(length => others.includes(length));
};

// Return whether equal seeds of two configurations saw the same data, and enough seeds are equal.
function arePaired(c, d) {
  const [seeds, others] = [configurations[c].seeds, configurations[d].seeds];
  const [i, j] = [page.pairing.classes[c], page.pairing.classes[d]];
  const shareData = i === j || page.pairing.paired.some(pair => pair.includes(i) && pair.includes(j));
  const common = seeds.filter(seed => others.includes(seed)).length;
  return shareData && common > 0 && (common === Math.min(seeds.length, others.length) || common >= page.min_pairs);
}

// Return the comparison of c with d at a group of lengths; null if they have none in common. `difference`, the median
// difference over seeds, has an exact interval [low, high] of confidence `level`; `reason` says why it may lack one.
// `bothFailed` and `oneFailed` count pairs; the former tie, but `shown` has the differences of all other pairs alone.
function compareSeeds(c, d, group) {
  const m = state.metric, lengths = listCommon(c, d, m, group);
  if (!lengths.length) return null;

  // The outcomes of each side by seed: as they are, and with the value of failed seeds.
  const isReduced = group === "selection" && page.metrics[m].name === page.judged.metric;
  const reduction = isReduced ? page.judged.reduce : "mean";
  const outcomes = [c, d].map(side => configurations[side].seeds.map(
    (seed, s) => [seed, reduceCurve(m, state.average, side, s, lengths, reduction)],
  ));
  const isMissing = ([, value]) => Number.isNaN(value), failedValue = failedValueOf(m);
  const [first, second] = outcomes.map(side => new Map(
    side.map(([seed, value]) => [seed, Number.isNaN(value) ? failedValue : value]).filter(pair => !isMissing(pair)),
  ));

  // Without pairs of values there is no interval.
  const medians = [medianOf(first.values()), medianOf(second.values())], paired = arePaired(c, d);
  const comparison = {
    group, lengths, medians, paired, differences: [], shown: [], bothFailed: 0, oneFailed: 0,
    difference: NaN, low: NaN, high: NaN, level: NaN, p: NaN, n: 0, reason: "",
  };
  if (page.judged.policy === "fail" && outcomes.flat().some(isMissing))
    return {...comparison, reason: "a seed failed, and with it the configuration"};
  if (outcomes.flat().length && outcomes.flat().every(isMissing))
    return {...comparison, medians: [NaN, NaN], reason: "no seed of either has a value"};
  if (!paired)
    return {
      ...comparison, difference: difference(...medians), reason: "the seeds are not paired, so there is no interval",
    };

  const failedSeeds = outcomes.map(side => new Set(side.filter(isMissing).map(([seed]) => seed)));
  const seeds = [...first.keys()].filter(seed => second.has(seed));
  const differences = seeds.map(seed => difference(first.get(seed), second.get(seed)));
  const failures = seeds.map(seed => countTrue(failedSeeds.map(side => side.has(seed))));
  Object.assign(comparison, {
    differences, shown: differences.filter((_, index) => failures[index] < 2),
    bothFailed: countTrue(failures.map(count => count === 2)),
    oneFailed: countTrue(failures.map(count => count === 1)),
  });
  return {...comparison, ...testDifferences(differences)};
}

// Return that n pairs of seeds are too few for a purpose, with the number that is needed.
const describeTooFew = (n, purpose, least) =>
  `${n} ${n === 1 ? "pair of seeds is" : "pairs of seeds are"} too few for ${purpose} (at least ${least})`;

// Return the median of differences with an interval of at least this confidence, and p of the sign test.
function testDifferences(differences, confidence = 0.95) {
  const sorted = Float64Array.from(differences).sort(), n = sorted.length;
  if (!n) return {difference: NaN, n, reason: "no seed has a value in both"};

  // The interval lies between two of the sorted differences (the inverted sign test): as many are dropped at either end
  // as leave at least this confidence.
  const levelOf = dropped => 1 - 2 * binomialCdf(n, dropped);
  let dropped = -1;
  while (n >= page.min_pairs && levelOf(dropped + 1) >= confidence) dropped++;
  const interval = dropped >= 0
    ? {low: sorted[dropped], high: sorted[n - 1 - dropped], level: levelOf(dropped)}
    : {reason: describeTooFew(n, "an interval", page.min_pairs)};

  // In the sign test a difference of 0 counts for both signs.
  const rarer = Math.min(differences.filter(x => x <= 0).length, differences.filter(x => x >= 0).length);
  return {difference: medianOf(sorted), n, p: Math.min(1, 2 * binomialCdf(n, rarer)), ...interval};
}

// Return whether both medians are 0 or 1, the ends of most metrics, where a difference can hardly show.
const isAtEnd = ({medians: [first, second]}) => first === second && (first === 0 || first === 1);

// Return which side is better, or lower without a better direction; as `verdict` in
// results/comparing/seed_comparisons.py: "first", "second", "equal", "inconclusive", or "none" without an interval.
function judge({medians, differences, low, high, n, bothFailed}) {
  if (Number.isNaN(low)) return "none";
  if (low === 0 && high === 0 && isAtEnd({medians})) return "inconclusive";

  // A tie of two failed seeds is no evidence that both sides are equal.
  if (low === 0 && high === 0) {
    const ties = countTrue(differences.map(value => value === 0));
    return !bothFailed || ties - bothFailed > Math.max(1, n - ties) ? "equal" : "inconclusive";
  }
  if (!(low > 0 || high < 0)) return "inconclusive";
  return (low > 0) === (page.metrics[state.metric].direction === "maximize") ? "first" : "second";
}

// Return whether the compared seeds also chose one of the two as the first of the sweep, as `find_chosen` in
// results/selection_bias.py decides; and as `is_biased` there, whether that biases a comparison.
const isOneChosen = (c, d) =>
  [c, d].includes(ranked[0]) && [c, d].some(side => configurations[side].lost_to_first);
const isBiased = (comparison, c, d) => isOneChosen(c, d) && !["none", "equal"].includes(judge(comparison));

// Return one sentence on a comparison, as orchestrator/report/tables/seed_comparison_table.py begins
// `lengthwise compare`.
function describeComparison(comparison, first, second) {
  const {group, lengths, differences, difference, low, high, n, bothFailed, oneFailed, reason} = comparison;
  const labels = [configurations[first].label, configurations[second].label];
  const at = `at the ${group} length${lengths.length > 1 ? "s" : ""} ${formatRanges(lengths)}`;
  if (Number.isNaN(difference)) return `No verdict ${at}: ${reason}.`;

  // Without an interval, an infinite difference comes from failed seeds alone.
  const failures = [[bothFailed, "both sides"], [oneFailed, "one side"]].filter(([count]) => count)
    .map(([count, where]) => `${count} of them failed on ${where}`);
  const failedPairs = failures.length ? `; ${failures.join(", ")}` : "";
  const hasFailed = [first, second].some(hasFailedSeeds); // else an infinite value is a threshold never reached
  if (hasFailed && !Number.isFinite(difference) && Number.isNaN(low)) {
    const counts = [first, second].map((c, n) => `${configurations[c].failed} of ${labels[n]}`).join(" and ");
    return `No verdict ${at}: seeds failed (${counts}), and ${reason}${failedPairs}.`;
  }

  // Equal values in all pairs; with few pairs there is no interval.
  const atEnd = isAtEnd(comparison)
    ? `; both medians are ${comparison.medians[0]}, where a difference can hardly show` : "";
  const measured = metricName() === judgedName ? "" : ` in ${metricName()}`; // else every sentence is about it
  const finished = n - bothFailed, ties = countTrue(differences.map(value => value === 0));
  if (finished > 1 && ties === n) {
    const failed = `${bothFailed} pair${bothFailed > 1 ? "s" : ""} failed on both sides`;
    const pairs = bothFailed ? `the ${finished} pairs of seeds that finished; ${failed}` : `all ${n} pairs of seeds`;
    const verdict = isAtEnd(comparison) ? "Inconclusive" : "No difference";
    const begin = finished < page.min_pairs ? "No verdict" : verdict;
    return `${begin}${measured} ${at}: equal values in ${pairs}${atEnd}.`;
  }

  // The verdict, then the difference with the sign that it has in every table.
  const infiniteEnds = [low, high].filter(end => Math.abs(end) === Infinity).map(formatSigned).join(", ");
  const infinity = infiniteEnds && `; ${infiniteEnds}: ${hasFailed ? "failed seeds" : "never reached"}`;
  const evidence = `95 % interval, ${n} pairs of seeds${failedPairs}${infinity}`;
  const interval = Number.isNaN(low) ? `, but ${reason}${failedPairs}`
    : ` [${formatSigned(low)}, ${formatSigned(high)}] (${evidence})`;
  const signed = `${labels[0]} minus ${labels[1]}${measured} is ${formatSigned(difference)}${interval}`;
  const verdict = judge(comparison);
  const undecided = {none: "No verdict", equal: "No difference", inconclusive: "Inconclusive"};
  if (verdict in undecided) return `${undecided[verdict]} ${at}: ${signed}${atEnd}.`;
  const hasNoDirection = page.metrics[state.metric].direction === "none";
  const isLucky = isBiased(comparison, first, second);
  const relations = hasNoDirection ? ["lower than", "higher than"]
    : isLucky ? ["ahead of", "behind"] : ["better than", "worse than"];
  return `${labels[0]} is ${relations[Number(verdict === "second")]} ${labels[1]} ${at}: ${signed}.`;
}
