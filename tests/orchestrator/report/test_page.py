"""The page of a sweep: it needs nothing else, has no scripts, and takes names for text."""

import re

from orchestrator.report.files import write_report
from orchestrator.results.summarise import summary


def test_the_page_needs_nothing_else_and_shows_everything(small_sweep, page_of):
    page, _ = write_report(small_sweep.folder)
    html = page_of(page)
    assert "script" not in html.tags and "link" not in html.tags
    # comparison, three keys, last and best evaluations, margin against its bound, the first three configurations
    assert len(html.references) == 9
    assert all(reference.startswith("data:image/png;base64,") for reference in html.references)
    shown = " ".join(html.text)
    result = summary(small_sweep)
    assert all(row.config_id in shown for row in result.rows)
    for fact in ("commit " + "0" * 12, "torch 2.13.0", "lab3", "lengthwise publish", "were not used for selection"):
        assert fact in shown


def test_names_are_text_and_not_markup(tmp_path, synthetic_sweep, simple_curve, full_text, short_text, page_of):
    name = "<script>alert(1)</script> [red] & 'x'".replace("/", "")
    averages = {"<b>raw": {"kind": "raw"}, "ema": {"kind": "ema", "decay": 0.5}}
    spec = {"training.averages": averages}
    state = synthetic_sweep(tmp_path / name, [{"model.norm": "none"}], 1, simple_curve, spec=spec)
    page, _ = write_report(state.folder)
    parsed = page_of(page)
    assert not {"script", "b"} & set(parsed.tags) and name in " ".join(parsed.text)
    assert name in full_text(summary(state), 300) and name in short_text(summary(state))


def test_intervals_are_not_broken_into_lines(small_sweep, page_of):
    page, _ = write_report(small_sweep.folder)
    text = page.read_text()
    cells = re.findall(r"<td>(.*?)</td>", text)
    intervals = [cell for cell in cells if re.search(r"\[[-+\d.]+, [-+\d.]+\]", cell)]
    assert intervals and all(re.search(r"<span>\[[^<]*\]</span>", cell) for cell in intervals)
    assert "td span { white-space: nowrap; }" in text
