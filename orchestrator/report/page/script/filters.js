// The axes of hyperparameters and outcomes, and the filters on them: configurations outside a filter are pale.
const axes = [
  ...page.hyperparameters.map(hyperparameter => ({...hyperparameter})),
  ...["selection", "test"].map(name => {
    const values = configurations.map(configuration => configuration[name]);
    return {name, values, outcome: true, number: true, log: page.logarithmic_outcomes.includes(name)};
  }),
].filter(axis => axis.values.some(value => value !== null));

// The scale of each axis leads from its values to parts of its height, 0 to 1.
for (const axis of axes) {
  const distinct = [...new Set(axis.values.filter(value => value !== null))], [low, high] = d3.extent(distinct);
  axis.ticks = axis.number && !axis.outcome && distinct.length <= 5 ? distinct : null; // few values: a tick for each
  if (!axis.number) axis.scale = d3.scalePoint(distinct, [0, 1]).padding(0.3);
  else {
    axis.log = axis.log && low > 0;
    const range = low < high ? [low, high] : [low - 1, low + 1];
    const domain = axis.outcome && !axis.log ? widenDomain([low, high], 0) : range;
    axis.scale = (axis.log ? d3.scaleLog() : d3.scaleLinear()).domain(domain);
  }
}

// Return the labels of the ticks of an axis.
const tickFormat = (axis, scale) => {
  const hasTiny = axis.number && axis.ticks && d3.min(axis.ticks.filter(value => value > 0)) < 1e-4;
  if (hasTiny) return value => formatExponent(+value.toPrecision(3));
  if (!axis.number || axis.ticks) return shorten;
  return axis.log ? logTickFormat(scale) : linearTickFormat(scale);
};

// A filter is [low, high] in values of an axis of numbers, or the list of the kept categories of another axis. Values,
// unlike places on the axis, mean the same when a running sweep has added configurations.

// Return the part of its axis that a filter covers, as [low, high] from 0 to 1.
const findRange = (axis, filter) => {
  const [from, to] = axis.scale.domain();
  if (axis.number) return filter.map(value => axis.scale(Math.max(from, Math.min(to, value))));
  const [low, high] = d3.extent(filter, axis.scale), half = axis.scale.step() / 2;
  return [Math.max(0, low - half), Math.min(1, high + half)];
};

// Return the filter that keeps a part of an axis; null if there is no category in it.
const makeFilter = (axis, [low, high]) => {
  if (axis.number) return [axis.scale.invert(low), axis.scale.invert(high)];
  const kept = axis.scale.domain().filter(value => axis.scale(value) >= low && axis.scale(value) <= high);
  return kept.length ? kept : null;
};

// Return those filters of an earlier page that fit the axes of this one: a key may since have got a text as a value.
const selectFitting = filters => Object.fromEntries(
  axes.filter(({name, number, values}) => filters[name]?.every(
    value => number ? typeof value === "number" : values.includes(value),
  )).map(({name}) => [name, filters[name]]),
);

// Return whether all filters keep a configuration. Their ends have been rounded on their way through a scale.
const isIn = c => axes.filter(({name}) => state.filters[name]).every(({name, number, values}) => {
  const filter = state.filters[name], value = values[c];
  if (value === null || !number) return filter.includes(value);
  const [low, high] = filter, rounding = 1e-9 * Math.max(Math.abs(low), Math.abs(high));
  return value >= low - rounding && value <= high + rounding;
});

// Return the CSS class of a configuration outside a filter; A and B stay, because they are compared.
const outClass = c => isIn(c) || getMark(c) ? "" : " out";

// Return a filter as text, such as "0.05 to 0.27" or "none, pre"; and all filters, with the count of what they keep.
const describeFilter = (axis, filter) => filter.map(shorten).join(axis.number ? " to " : ", ");
const describeFilters = () => {
  const ranges = axes.filter(({name}) => state.filters[name])
    .map(axis => `${axis.name} ${describeFilter(axis, state.filters[axis.name])}`);
  return ranges.length ? `${d3.range(C).filter(isIn).length} of ${C} configurations, ${ranges.join(", ")}` : "";
};
