// Names and descriptions of configurations, metrics and lengths.

// Return lengths as text, such as "1-5, 8".
const formatRanges = lengths => {
  const ranges = [];
  for (const length of lengths) {
    const last = ranges.at(-1);
    if (last && length === last[1] + 1) last[1] = length; else ranges.push([length, length]);
  }
  return ranges.map(([low, high]) => low === high ? low : `${low}-${high}`).join(", ");
};

// Return a training step as text, such as "step 1,000".
const formatStep = step => `step ${d3.format(",")(step)}`;

// Return a value of a hyperparameter as a short text.
const shorten = value => {
  if (typeof value === "number") return compactNumber(value);
  return value.length > 14 ? `${value.slice(0, 13)}...` : value;
};

// Return the first of many texts.
const listFirst = (texts, separator = ", ") =>
  `${texts.slice(0, 6).join(separator)}${texts.length > 6 ? " ..." : ""}`;

// Return the name of a metric with its weight average; and the names for the objective and for the shown curves.
const formatMetric = (metric, average) => average === "raw" ? metric : `${metric} (${average})`;
const judgedName = formatMetric(page.judged.metric, page.judged.average);
const metricName = () => formatMetric(page.metrics[state.metric].name, page.averages[state.average]);

// Return the lengths of a group with a space before them; empty if configurations have different ones.
const describeLengths = group => {
  const texts = new Set(d3.range(C).map(c => formatRanges(groupsOf(c, 0)[group] || [])));
  return texts.size === 1 ? ` ${[...texts][0]}` : "";
};

// Return the label of a configuration, after its mark.
const labelWithMark = c => (getMark(c) ? `${getMark(c)} ` : "") + configurations[c].label;

// Return A and B with a text on each, for screen readers.
const describeSides = describeSide => chosenPair().map(c => `; ${labelWithMark(c)}${describeSide(c)}`).join("");

// Return rank and seeds of a configuration; `describe` adds its values.
const describeSeeds = c => {
  const {failed, run, seeds} = configurations[c], rank = `rank ${page.table.rank[c]}`;
  if (!failed && run === seeds.length) return `${rank}, ${run} seeds`;
  return `${rank}, ${run - failed} of ${seeds.length} seeds finished, ${failed} failed`;
};
const describe = c =>
  [describeSeeds(c), ...Object.entries(configurations[c].values).map(pair => pair.join(" "))].join(", ");

// Return why a configuration has no outcome, in few words; and its outcome, or else this reason.
const describeLost = c => isNeverReached ? page.judged.infinite : hasFailedSeeds(c) ? "failed" : "no score";
const formatOutcome = (c, outcome) =>
  isLost(c, outcome) ? describeLost(c) : formatNumber(configurations[c][outcome]);

// Begin a sentence after a colon, or one that was only a part of another.
const continueSentence = sentence => sentence[0].toLowerCase() + sentence.slice(1);
const beginSentence = sentence => sentence[0].toUpperCase() + sentence.slice(1);
