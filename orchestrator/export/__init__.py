"""Files for other programs: a sweep file, weights, an Optuna study, a LaTeX table, figures for papers, a notebook."""
