"""Export a sweep for other programs: sweep file, weights, LaTeX table, figures for papers."""
