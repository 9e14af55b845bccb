// The table of configurations.
const columns = Object.keys(page.table);
const asNumber = text => { // also of "#8" and "0.4 [0.398, 0.401]"; text comes last
  if (/^-inf/.test(text)) return -Infinity;
  const value = parseFloat(text.replace(/^#/, ""));
  return Number.isNaN(value) ? Infinity : value;
};
const NUMBER = /^([-+]?(\d[\d,]*(\.\d*)?|inf)(e[-+]?\d+)?|not reached)=?( .*)?$/; // as in orchestrator/report/tables/columns.py
const areNumbers = texts => { // apart from missing values; such a column is aligned at the right
  const present = texts.filter(text => text !== "-" && text !== "");
  return present.length > 0 && present.every(text => NUMBER.test(text));
};
function sortedConfigurations() {
  const cells = page.table[state.sort] || page.table.rank, isText = cells.every(text => asNumber(text) === Infinity);
  const key = isText ? c => cells[c] : c => asNumber(cells[c]), sign = state.isDescending ? -1 : 1;
  return d3.range(C).filter(isIn).sort((c, d) => sign * d3.ascending(key(c), key(d)) || c - d);
}

function visibleColumns() {
  const hidden = new Set(["config_id", "form"]);
  if (!configurations.some(configuration => configuration.failed)) hidden.add("failed");
  if (page.judged.reduce === "mean" && page.judged.statistic === "median") hidden.add("score"); // equals `selection`
  const visible = columns.filter(name => !hidden.has(name));
  if (innerWidth >= 700) return visible;

  // On a phone results come first, and the values of hyperparameters last.
  const hyperparameters = new Set(page.hyperparameters.map(({name}) => name));
  const position = name => ["rank", "label", "selection", "test"].indexOf(name) + 1 || (hyperparameters.has(name) ? 6 : 5);
  return visible.sort((name, other) => position(name) - position(other));
}

// Make elements one Tab stop: that with the focus, or that had it before the table was drawn anew; at first the first.
const lastFocused = {}; // by the group of elements
function makeOneStop(group, elements, nameOf) {
  const setStop = stop => elements.forEach(element => { element.tabIndex = element === stop ? 0 : -1; });
  setStop(elements.find(element => nameOf(element) === lastFocused[group]) ?? elements[0]);
  for (const element of elements)
    element.addEventListener("focus", () => { lastFocused[group] = nameOf(element); setStop(element); });
}

function drawTable() {
  const table = $("table"), names = visibleColumns(), order = sortedConfigurations(), limit = C > 15 ? 10 : 15;

  const sideOf = Object.fromEntries(names.map(name => [name, areNumbers(page.table[name]) ? "right" : ""]));

  // The head; a click on a column sorts by it, left and right move between columns.
  const head = make("tr"), thead = make("thead"), tbody = make("tbody");
  head.append(make("th"));
  for (const name of names) {
    const cell = make("th", undefined, {class: sideOf[name]}), button = make("button", name, {type: "button"});
    if (state.sort === name) cell.setAttribute("aria-sort", state.isDescending ? "descending" : "ascending");
    cell.addEventListener("click", () => { // also of the button, which keys reach
      const isFocused = document.activeElement === button;
      state.isDescending = state.sort === name && !state.isDescending;
      state.sort = name;
      update();
      if (isFocused) $("table").querySelector("th[aria-sort] button").focus();
    });
    button.addEventListener("keydown", event => {
      const side = {ArrowLeft: "previousSibling", ArrowRight: "nextSibling"}[event.key];
      if (!side) return;
      event.preventDefault(); // the table does not scroll
      cell[side]?.querySelector("button")?.focus();
    });
    cell.append(button);
    head.append(cell);
  }
  makeOneStop("heads", [...head.querySelectorAll("button")], button => button.textContent);
  thead.append(head);

  // The rows; A and B are always among them, and a screen reader hears that they are selected and which is which.
  const makeCell = (c, name) => {
    const [value, quartiles] = page.table[name][c].split(" ["), attributes = {class: `number ${sideOf[name]}`};
    if (name === "label") return make("th", value, {...attributes, scope: "row", "aria-label": labelWithMark(c)});
    const cell = make("td", value, attributes);
    if (quartiles) cell.append(make("small", ` [${quartiles}`));
    return cell;
  };
  for (const c of state.showsAll ? order : order.filter((c, index) => index < limit || markOf(c))) {
    const row = make("tr", undefined, {"data-c": c, "aria-selected": markOf(c) !== ""}), cell = make("td");
    const mark = make("span", markOf(c), {"aria-hidden": "true", class: `mark ${{A: "first", B: "second"}[markOf(c)] || "none"}`});
    if (!markOf(c)) mark.style.background = color(c);
    cell.append(mark);
    row.append(cell, ...names.map(name => makeCell(c, name)));
    row.addEventListener("pointerenter", () => point(c));
    row.addEventListener("pointerleave", () => point(null));
    row.addEventListener("focus", () => point(c));
    row.addEventListener("click", () => choose(c));
    row.addEventListener("keydown", pointByKey);
    tbody.append(row);
  }
  makeOneStop("rows", [...tbody.rows], row => row.dataset.c);
  const metric = page.metrics[state.metric].name, isOtherAverage = page.averages[state.average] !== page.judged.average;
  const shown = isOtherAverage ? `${metric} (${page.averages[state.average]})` : metricName(); // also "(raw)"
  const step = state.evaluation ? `; the curves are those of step ${d3.format(",")(page.steps[state.evaluation - 1])}` : "";
  const kept = describeFilters(), others = (metricName() === judgedName ? "" : `, not ${shown} of the curves`) + step;
  table.replaceChildren(make("caption", `${judgedName}, the metric of the objective${others}${kept && `; ${kept}`}`), thead, tbody);

  // Name the columns beyond the edge, and offer the rows that are not shown.
  const edge = table.parentElement.clientWidth + 1;
  const beyond = [...head.cells].filter(cell => cell.offsetLeft + cell.offsetWidth > edge).map(cell => cell.textContent);
  $("beyond").hidden = !beyond.length;
  $("beyond").textContent = `Scroll the table sideways to see ${beyond.join(", ")}.`;
  $("every").hidden = order.length <= limit;
  $("every").textContent = state.showsAll ? `Show the first ${limit}` : `Show all ${order.length} configurations`;
  $("clear").hidden = !Object.keys(state.filters).length;
}

// A table from its head and the rows of its body, in a box that scrolls sideways. Cells are texts or elements.
function makeTable(head, body) {
  const table = make("table"), thead = make("thead"), tbody = make("tbody"), box = make("div", undefined, {class: "scroll"});
  const makeRow = cells => { const row = make("tr"); row.append(...cells); return row; };
  const sides = head.map((_, column) => areNumbers(body.map(cells => cells[column])) ? "right" : "");
  const makeCell = (content, column) => { const cell = make("td", undefined, {class: `number ${sides[column]}`}); cell.append(content); return cell; };
  thead.append(makeRow(head.map((text, column) => make("th", text, {class: sides[column]}))));
  tbody.append(...body.map(cells => makeRow(cells.map(makeCell))));
  table.append(thead, tbody);
  box.append(table);
  return box;
}
