"""The HTML page of a sweep, report.html: how it is made, and when it is written.

`write_report.py` reads ledger and curves and summarizes them (results/make_summary.py). `render_page` (render.py) then
fills page.html with text, style (page.css), script/*.js and d3, and with the data of `make_page_data` (data.py), from
which the script draws curves and tables in the browser. Its sentences come from the modules of report/, its tables from
report/tables/. One of the functions of write_report.py writes it:

refresh_page     while a sweep runs: after new records, at most every ten seconds, in a thread of the driver
                 (session/running_page.py), but not with the scheduler `inline`
present_report   with the other files of the report: when a sweep has ended (session/finish.py), by `lengthwise report`
                 and `evaluate` (cli/), and by `Sweep.report` in Python (api/sweep.py)
write_report     the same without printing: for the parent of a confirmation (sweep/confirm.py), and by
                 `lengthwise publish`, which uploads it (tracking/publish.py)
write_page       the page alone: after an interruption, so that it no longer says "running" (session/session.py)

The script, in this order (`SCRIPT_FILES` in render.py):

numbers, elements, data, state, words, drawing, filters   what all parts use: first what knows nothing of the page, then
                                  its data, what the reader has chosen, texts, and how pictures are drawn and filtered
curves, focus, legend             the medians against length, what stands out from them, and the texts below
table                             the table of configurations
seed_comparisons, comparison      A and B over their seeds: the numbers and the verdict, then how they are shown
points, parallel, effects         the section on hyperparameters
start                             the controls; draws everything at first and after each choice
"""
