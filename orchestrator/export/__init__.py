"""Files for other programs: a sweep file, weights, a LaTeX table, figures for papers."""
