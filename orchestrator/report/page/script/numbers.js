// Numbers as format_number, format_signed and compact_value in orchestrator/text/wording.py write them, so that a
// number reads the same on the page, in the terminal and in every table; tests compare both.

// Return a number rounded to three digits; a tie is rounded to the even digit, as in Python.
const roundToThree = x => {
  const tie = x.toExponential(25).match(/^(-?\d\.\d[02468])50*(e.*)$/);
  return tie ? Number(tie[1] + tie[2]) : Number(x.toPrecision(3));
};

// Return a number with three digits; "-" for a missing number, and for infinity its meaning in this sweep.
const formatNumber = x => {
  if (x === null || Number.isNaN(x)) return "-";
  if (x === Infinity) return page.judged.infinite;
  if (x === -Infinity) return "-inf";

  // As in Python, numbers below 1e-4 have an exponent, of at least two digits.
  const rounded = roundToThree(x), isTiny = rounded && Math.abs(rounded) < 1e-4;
  return (isTiny ? rounded.toExponential(2) : rounded.toPrecision(3)).replace(/e([+-])(\d)$/, "e$10$2");
};

// Return a difference with its sign.
const formatSigned = x => x === Infinity ? "+inf" : (x > 0 ? "+" : "") + formatNumber(x);

// Return a value of a hyperparameter in few characters; whole numbers are written in full.
const compactNumber = x => {
  if (Number.isInteger(x)) return String(x);

  // Decays of averages, such as 0.9995, differ in their distance to 1: as many digits as keep it within 5 %.
  if (x > 0.9 && x < 1) {
    const isClose = text => Number(text) < 1 && Math.abs(text - x) <= 0.05 * (1 - x);
    let digits = 3;
    while (digits < 16 && !isClose(x.toFixed(digits))) digits++;
    return String(Number(x.toFixed(digits)));
  }

  const rounded = roundToThree(x), size = Math.abs(rounded);
  return (size < 1e-4 || size >= 1e3 ? rounded.toExponential() : String(rounded)).replace("e+", "e");
};
