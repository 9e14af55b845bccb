// Numbers as format_number, format_signed and compact_value in orchestrator/text/wording.py write them, so that a number
// reads the same on the page, in the terminal and in every table; tests compare both.
const roundToThree = x => { // half of the last digit goes to the even one, as in Python
  const tie = x.toExponential(25).match(/^(-?\d\.\d[02468])50*(e.*)$/);
  return tie ? Number(tie[1] + tie[2]) : Number(x.toPrecision(3));
};
const formatNumber = x => {
  if (x === null || Number.isNaN(x)) return "-";
  if (x === Infinity) return page.judged.infinite;
  if (x === -Infinity) return "-inf";
  const rounded = roundToThree(x), isTiny = rounded && Math.abs(rounded) < 1e-4;
  return (isTiny ? rounded.toExponential(2) : rounded.toPrecision(3)).replace(/e([+-])(\d)$/, "e$10$2");
};
const formatSigned = x => x === Infinity ? "+inf" : (x > 0 ? "+" : "") + formatNumber(x);
const compactNumber = x => { // whole numbers in full
  if (Number.isInteger(x)) return String(x);
  if (x > 0.9 && x < 1) { // averages differ in the distance of their decay to 1
    let digits = 3;
    while (digits < 16 && !(Number(x.toFixed(digits)) < 1 && Math.abs(x.toFixed(digits) - x) <= 0.05 * (1 - x))) digits++;
    return String(Number(x.toFixed(digits)));
  }
  const rounded = roundToThree(x), size = Math.abs(rounded);
  return (size < 1e-4 || size >= 1e3 ? rounded.toExponential() : String(rounded)).replace("e+", "e");
};
