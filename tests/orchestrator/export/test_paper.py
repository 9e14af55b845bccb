"""What goes into a paper: a LaTeX table with every number of the report, figures with embedded fonts and own labels."""

import re
import shutil
import subprocess

import pytest
from matplotlib.figure import Figure

from orchestrator.errors import UserError
from orchestrator.export.latex import escape, make_latex_table
from orchestrator.export.paper_figures import draw_paper_figures
from orchestrator.export.user_labels import read_labels, select_labelled_rows
from orchestrator.export.write_exports import ExportRequest, export
from orchestrator.figures.on_axes import plot_curves, plot_effect
from orchestrator.results.make_summary import summarize
from search_spaces import SweepFileError


@pytest.fixture
def result(small_sweep):
    return summarize(small_sweep)


def body(text: str) -> list[list[str]]:
    lines = text.splitlines()
    rows = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    return [row.removesuffix(r" \\").split(" & ") for row in rows]


def test_the_latex_table_has_the_numbers_of_the_report(result):
    text = make_latex_table(result, {})
    rows = body(text)
    assert len(rows) == len(result.rows)
    for cells, row in zip(rows, result.rows, strict=True):
        assert cells[0] == rf"\#{row.number}" and cells[-1] == f"{row.seeds_failed} of {row.seeds_run}"
        numbers = re.findall(r"\$(-?[\d.]+|\\infty)\$", " ".join(cells))
        wanted = [
            q
            for at in (row.trained_quartiles, row.selection_quartiles, row.test_quartiles)
            for q in (at.median, at.q25, at.q75)
        ]
        assert [float(number.replace(r"\infty", "inf")) for number in numbers] == pytest.approx(wanted, rel=5e-3)
    columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
    assert columns and {len(cells) for cells in rows} == {len(columns[1])}
    names = text.split("\\toprule\n")[1].split(" \\\\")[0].split(" & ")
    left = {name for name, side in zip(names, columns[1], strict=True) if side == "l"}
    assert left == {"", "norm"}  # a label and a text; all others are numbers
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert "18 seeds ran, 1 failed (worst)" in text


def test_the_latex_table_compiles(result, tmp_path):
    program = shutil.which("pdflatex") or shutil.which("tectonic")
    if program is None:
        pytest.skip("neither pdflatex nor tectonic is installed")
    table = make_latex_table(result, {"#0": "50 % of {x_1} & \\more^2 ~ #", "#1": '[a] "b"--c'})
    text = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n" + table + "\\end{document}\n"
    (tmp_path / "t.tex").write_text(text)
    done = subprocess.run([program, "t.tex"], cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and (tmp_path / "t.pdf").exists(), done.stdout[-2000:]


def test_a_label_is_no_argument_of_the_row_before_it(result):
    lines = make_latex_table(result, {"#0": "[ours]", "#1": "*best"}).splitlines()
    assert sum(line.startswith(("{}[ours] & ", "{}*best & ")) for line in lines) == 2
    assert not any(line.lstrip().startswith(("[", "*")) for line in lines)


def test_texts_are_escaped():
    assert escape('a "b" c--d---e - f') == "a ''b'' c-{}-d-{}-{}-e - f"
    assert escape("50 % of x_1 & {y}") == r"50 \% of x\_1 \& \{y\}"
    assert escape("a\\b~c^d") == r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"


@pytest.mark.slow
def test_pdf_figures_have_the_asked_size_and_embedded_truetype_fonts(result, tmp_path):
    files = draw_paper_figures(result, "pdf", tmp_path, (3.3, 2.4), {})
    assert [path.name for path in files] == [
        "small-curves.pdf",
        "small-model.norm.pdf",
        "small-training.batch_size.pdf",
        "small-training.learning_rate.pdf",
    ]
    for content in files.values():
        box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", content)
        assert box and [float(side) for side in box.groups()] == pytest.approx([3.3 * 72, 2.4 * 72], abs=0.1)
        assert b"/FontFile2" in content and b"/Type3" not in content
    assert files == draw_paper_figures(result, "pdf", tmp_path, (3.3, 2.4), {})


def test_labels_name_and_choose_configurations(result, tmp_path):
    file = tmp_path / "labels.yaml"
    file.write_text('"#4": Pre-norm\n"#1": No norm\nlength: Input length\ntotal_variation: Error\n')
    labels = read_labels(file, result)
    axes = Figure().subplots()
    plot_curves(result, axes, rows=select_labelled_rows(result, labels), labels=labels)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["Pre-norm", "No norm (1 of 3 seeds failed)"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Input length", "Error, median over seeds")
    assert [row[0] for row in body(make_latex_table(result, labels))] == ["Pre-norm", "No norm"]
    (key, *_) = result.searched
    plot_effect(result, key, effect := Figure().subplots(), labels={"total_variation": "Error", key: "Own key"})
    assert (effect.get_xlabel(), effect.get_ylabel()) == ("Own key", "score: mean Error at lengths 6-7")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("total_variatoin: x\n", r"labels\.yaml:1: total_variatoin: is not in this sweep .* mean total_variation\?"),
        ('"#77": x\n', "is not in this sweep"),
        ("length: 3\n", r"labels\.yaml:1: length: is not a text"),
        ("- a\n", "is not a mapping of names to texts"),
        ("length: [\n", "is not valid YAML"),
        (None, "there is no such file"),
    ],
)
def test_wrong_labels_are_refused_by_line(result, tmp_path, text, message):
    file = tmp_path / "labels.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SweepFileError, match=message):
        export(result.folder, ExportRequest(latex=tmp_path / "t.tex", labels=file))
    assert not (tmp_path / "t.tex").exists()


def test_a_sweep_without_curves_has_no_figures(tmp_path, synthetic_sweep, simple_curve):
    state = synthetic_sweep(tmp_path / "begun", [{}], 2, simple_curve, ended=False)
    with pytest.raises(UserError, match="no median curves to draw"):
        export(state.folder, ExportRequest(figures="pdf", to=tmp_path))
