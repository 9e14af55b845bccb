"""Modules of the user's own: what counts of them, where they are looked for, and what is said of those that fail."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from orchestrator.code import time_limit, user_code
from orchestrator.code.code_record import record_code
from orchestrator.code.trust import trust_sweep
from orchestrator.code.user_code import CodeSource, UserCodeError, find_module, import_spec_modules, load_module
from orchestrator.record.files.recorded_modules import import_to_resume
from orchestrator.record.state.state import SweepState
from search_spaces import SweepFileError, load_sweep, parse_sweep
from trainers.check.__main__ import main
from trainers.settings import registry

AVERAGE = '''
from trainers.optimization.averaging import Ema
from trainers.settings.registry import register


@register("average", "{name}")
class Own(Ema):
    """An average of the test's own."""
'''


@pytest.fixture(autouse=True)
def forgotten(own_code_forgotten: None) -> None:
    """Every test here imports and registers."""


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__in__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def test_the_copy_that_a_sweep_has_kept_is_found_beside_its_specification(
    written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run DIR/sweep.yaml --name other` from another folder; a module there comes first."""
    written(sweep__in__code__in__abc__in__own_kept=AVERAGE.format(name="kept"))
    monkeypatch.chdir(tmp_path)
    source = user_code._find_source(
        "own_kept", [tmp_path / "sweep", tmp_path, *user_code._list_copy_folders("own_kept", tmp_path / "sweep")]
    )
    assert source.root == tmp_path / "sweep" / "code" / "abc" and not source.installed
    written(sweep__in__code__in__def__in__own_kept=AVERAGE.format(name="kept2"))
    with pytest.raises(UserCodeError, match="several copies in the sweep"):
        user_code._list_copy_folders("own_kept", tmp_path / "sweep")
    written(own_kept=AVERAGE.format(name="mine"))
    folders = [tmp_path / "sweep", tmp_path, *user_code._list_copy_folders("own_kept", tmp_path / "sweep")]
    assert user_code._find_source("own_kept", folders).root == tmp_path


def test_a_module_is_its_files_and_those_beside_it_that_it_imports(written) -> None:
    folder = written(
        own_a="import own_b, json\nfrom own_pack.deep import x\n",
        own_b="import own_a\n",
        own_pack__in____init__="",
        own_pack__in__deep="from own_pack import y\n",
        own_pack__in__deeper__in__more="",
        own_unused="",
    )
    source = find_module("own_a", [folder])
    assert set(source.files) == {
        "own_a.py", "own_b.py", "own_pack/__init__.py", "own_pack/deep.py", "own_pack/deeper/more.py",
    }  # fmt: skip
    assert not source.installed and source.root == folder
    before = source.sha256
    (folder / "own_unused.py").write_text("changed")
    assert find_module("own_a", [folder]).sha256 == before
    (folder / "own_pack" / "deep.py").write_text("x = 2\n")
    assert find_module("own_a", [folder]).sha256 != before


def test_where_the_files_lie_does_not_matter_for_the_hash(written, tmp_path: Path) -> None:
    folder = written(own_a="import own_b", own_b="")
    written(other__in__own_a="import own_b", other__in__own_b="")
    assert find_module("own_a", [folder]).sha256 == find_module("own_a", [tmp_path / "other"]).sha256


def test_classes_register_once_and_the_same_module_again_is_no_second_one(written) -> None:
    folder = written(own_averages=AVERAGE.format(name="own_average"))
    load_module(find_module("own_averages", [folder]))
    load_module(find_module("own_averages", [folder]))
    assert "own_average" in registry.list_names("average")


def test_other_content_under_the_same_name_is_refused(written, tmp_path: Path) -> None:
    folder = written(own_averages=AVERAGE.format(name="own_average"))
    load_module(find_module("own_averages", [folder]))
    written(other__in__own_averages="x = 1\n")
    with pytest.raises(UserCodeError, match="use a new process"):
        load_module(find_module("own_averages", [tmp_path / "other"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import own_missing\n", r"ModuleNotFoundError: No module named 'own_missing' \(.*own_bad.py:1\)"),
        ("x = 1\n1 / 0\n", r"ZeroDivisionError: division by zero \(.*own_bad.py:2\)"),
        ("def f(:\n", r"SyntaxError: .* \(.*own_bad.py:1\)"),
        ("import sys\nsys.exit(3)\n", r"own_bad cannot be imported: SystemExit: 3"),
        ("raise GeneratorExit(7)\n", r"own_bad cannot be imported: GeneratorExit: 7 \(.*own_bad.py:1\)"),
        ("class Odd(BaseException): ...\nraise Odd('no')\n", r"own_bad cannot be imported: Odd: no"),
        (AVERAGE.format(name="ema"), r"ValueError: average 'ema' is registered twice"),
    ],
)
def test_a_module_that_fails_is_named_with_its_line_and_leaves_nothing(written, text: str, message: str) -> None:
    folder = written(own_bad=AVERAGE.format(name="half_way") + text)
    if text.startswith("def"):
        folder = written(own_bad=text)
    source = find_module("own_bad", [folder])
    with pytest.raises(UserCodeError, match=message.replace("py:1", r"py:\d+").replace("py:2", r"py:\d+")):
        load_module(source)
    assert "half_way" not in registry.list_names("average") and "own_bad" not in sys.modules
    written(own_bad=AVERAGE.format(name="half_way"))
    load_module(find_module("own_bad", [folder]))
    assert "half_way" in registry.list_names("average")


def test_a_slow_import_is_noted_once(written, monkeypatch, capsys) -> None:
    monkeypatch.setattr(time_limit, "NOTICE_SECONDS", 0.1)
    load_module(find_module("own_slow", [written(own_slow="import time\ntime.sleep(0.35)\n")]))
    (note,) = capsys.readouterr().err.splitlines()
    assert "0.1 s" in note and "importing own_slow" in note


@pytest.mark.parametrize("name", ["json", "trainers", "orchestrator.sweep.run_and_resume", "typing", "__main__"])
def test_names_of_python_and_of_ours_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserCodeError, match="has a module of this name"):
        find_module(name, [tmp_path])


def test_a_module_that_is_nowhere_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UserCodeError) as caught:
        find_module("own_nowhere", [tmp_path])
    assert str(tmp_path) in str(caught.value) and "installed packages" in str(caught.value)


def test_an_installed_package_is_found_and_known_as_one() -> None:
    source = find_module("xdist", [])
    assert source.installed and "xdist/__init__.py" in source.files
    assert {name.partition("/")[0] for name in source.files} == {"xdist"}  # nothing of what it imports


QUICKSTART = Path(user_code.__file__).parents[2] / "search_spaces" / "quickstart.yaml"


def test_the_sweep_file_names_modules_beside_it(written) -> None:
    folder = written(own_averages=AVERAGE.format(name="own_average"))
    file = folder / "own.yaml"
    file.write_text(QUICKSTART.read_text() + "imports: [own_averages]\n")
    spec = load_sweep(file)
    assert spec.imports == ("own_averages",) and spec.folder == folder
    (source,) = import_spec_modules(spec)
    assert source.root == folder and "own_average" in registry.list_names("average")
    assert spec.resolved()["imports"] == ["own_averages"]


def test_a_missing_module_is_a_problem_of_its_line(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    text = QUICKSTART.read_text() + "imports: [own_nowhere]\n"
    file.write_text(text)
    with pytest.raises(SweepFileError) as caught:
        import_spec_modules(load_sweep(file))
    (problem,) = caught.value.problems
    assert problem.where == f"{file}:{len(text.splitlines())}" and problem.key == "imports[0]"


def test_import_options_are_added_to_those_of_the_file(written) -> None:
    folder = written(own_a="", own_b="")
    file = folder / "own.yaml"
    file.write_text(QUICKSTART.read_text() + "imports: [own_a]\n")
    spec = load_sweep(file, imports=["own_a", "own_b", "own_nowhere"])
    assert spec.imports == ("own_a", "own_b", "own_nowhere")
    with pytest.raises(SweepFileError) as caught:
        import_spec_modules(spec)
    assert [problem.where for problem in caught.value.problems] == ["--import own_nowhere"]


@pytest.mark.parametrize(
    "written_list", ["[my tasks]", "[a, a]", "[../evil]", "my_tasks", "['1a']", "[a..b]", f"[{'a' * 1000}]"]
)
def test_what_is_no_list_of_module_names_is_refused(written_list: str) -> None:
    with pytest.raises(SweepFileError) as caught:
        parse_sweep(QUICKSTART.read_text() + f"imports: {written_list}\n", "here.yaml")
    (problem,) = caught.value.problems
    assert problem.key == "imports" and "module names" in (problem.allowed or "")


def test_a_sweep_without_modules_has_no_such_key() -> None:
    assert "imports" not in load_sweep(QUICKSTART).resolved()


def test_the_contract_is_checked_from_the_command_line(written, monkeypatch, capsys) -> None:
    folder = written(
        own_good=AVERAGE.format(name="own_average"),
        own_bad=AVERAGE.format(name="x").replace("test's own.", "test's own.\n\n    >>> 1 + 1\n    3\n    "),
        own_other=AVERAGE.format(name="other"),
    )
    monkeypatch.syspath_prepend(folder)
    assert main(["own_good", "own_bad"]) == 1
    both = capsys.readouterr().out
    assert both.startswith("average own_average: good\naverage x: ")
    assert "docstring that fail: 1" in both and "Got:\n    2" in both
    assert main(["own_other"]) == 0 and capsys.readouterr().out == "average other: good\n"
    assert main([]) == 2 and main(["own_nowhere"]) == 2
    assert "own_nowhere cannot be imported" in capsys.readouterr().err


def test_a_shipped_module_is_checked_and_one_without_classes_is_not(capsys) -> None:
    assert main(["trainers.optimization.schedules"]) == 0
    assert "schedule constant: good" in capsys.readouterr().out.splitlines()
    assert main(["trainers.errors"]) == 2


def test_a_helper_of_the_same_name_in_another_folder_is_refused(written, tmp_path: Path) -> None:
    folder = written(own_a="import own_helper\n", own_helper="V = 1\n")
    load_module(find_module("own_a", [folder]))
    other = written(other__in__own_b="import own_helper\n", other__in__own_helper="V = 2\n") / "other"
    with pytest.raises(UserCodeError, match=r"another own_helper\.py is already imported, from .* use a new process"):
        load_module(find_module("own_b", [other]))
    (other / "own_helper.py").write_text("V = 1\n")
    load_module(find_module("own_b", [other]))


def test_folders_without_init_and_linked_ones_count_and_broken_links_do_not(written, tmp_path: Path) -> None:
    folder = written(
        own_a="import own_plain.tools\nimport own_pack\n", own_plain__in__tools="", own_pack__in____init__=""
    )
    written(elsewhere__in__deep="")
    (folder / "own_pack" / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "own_pack" / ".#open_in_emacs.py").symlink_to("nobody@nowhere.1")
    expected = {"own_a.py", "own_plain/tools.py", "own_pack/__init__.py", "own_pack/linked/deep.py"}
    assert set(find_module("own_a", [folder]).files) == expected


def record(state: SweepState, sources: Sequence[CodeSource]) -> None:
    code = record_code([], sources)
    code.write_copies(state.folder)
    state.codes = [code.fields]


def test_the_copy_that_was_accepted_moves_with_its_sweep_and_no_namesake_counts(
    written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(own_a="V = 1\n")
    state = SweepState(tmp_path / "before" / "tiny")
    record(state, [find_module("own_a", [folder])])
    state.checksum = "of a sweep that this test begins"
    trust_sweep(state)
    (folder / "own_a.py").unlink()
    written(other__in__own_a="V = 2\n")
    monkeypatch.syspath_prepend(tmp_path / "other")
    with pytest.raises(UserCodeError, match="and differs in"):
        import_to_resume(state, accept_change=False)
    sources, notes = import_to_resume(state, accept_change=True)
    assert sys.modules["own_a"].V == 1 and "the copy in" in notes[0]
    record(state, sources)
    (tmp_path / "before").rename(tmp_path / "after")
    state.folder = tmp_path / "after" / "tiny"
    (source,), notes = import_to_resume(state, accept_change=False)
    assert source.root.is_relative_to(tmp_path / "after") and not notes
