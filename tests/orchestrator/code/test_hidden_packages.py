"""Files of the user with names of our packages, or of Python's modules: the current folder decides nothing."""

import os
import shutil
import subprocess
import sys
import threading
from types import ModuleType

import pytest
from ray.exceptions import RayActorError

from orchestrator.code.packages import LENGTHWISE_FOLDER, SIBLING_PACKAGES, make_module_command, protect_package_names
from orchestrator.running.children.worker_host import WorkerHost
from orchestrator.running.schedulers import local
from orchestrator.running.with_ray.tune import make_ray_death
from search_spaces import Resources
from tests.orchestrator.running.deaths import RecordingDriver, empty_work

AS_IN_A_NOTEBOOK = f"import sys; sys.path[:1] = ['']; sys.path.append({str(LENGTHWISE_FOLDER)!r}); "


def test_a_child_imports_nothing_from_the_current_folder(crowded):
    command = make_module_command("orchestrator.running.children.child", "trainers.settings.registry", "0")
    ended = subprocess.run(command, cwd=crowded, capture_output=True, text=True, check=False)
    assert "has no attribute 'serve'" in ended.stderr and "absent_package" not in ended.stderr


def test_orchestrator_is_imported_beside_packages_of_the_same_names(crowded):
    (crowded / "orchestrator" / "__init__.py").unlink()
    for name in ("random", "queue", "json", "psutil"):
        (crowded / f"{name}.py").unlink()
    code = f"{AS_IN_A_NOTEBOOK} import orchestrator; import trainers; print(trainers.__file__)"
    ended = subprocess.run([sys.executable, "-c", code], cwd=crowded, capture_output=True, text=True, check=False)
    assert ended.stdout.strip() == str(LENGTHWISE_FOLDER / "trainers" / "__init__.py"), ended.stderr


def test_the_package_uses_its_client_beside_a_copy_of_another_version(tmp_path):
    (tmp_path / "lengthwise.py").write_text("version = 'another'\n")
    for first, expected in (
        ("import orchestrator", str(LENGTHWISE_FOLDER / "lengthwise.py")),
        ("import sys", "another"),
    ):
        code = (
            f"{AS_IN_A_NOTEBOOK} {first}; import lengthwise; print(getattr(lengthwise, 'version', lengthwise.__file__))"
        )
        ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.stdout.strip() == expected, ended.stderr


def test_a_copy_of_the_client_opens_the_package(tmp_path):
    shutil.copy(LENGTHWISE_FOLDER / "lengthwise.py", tmp_path)
    code = f"{AS_IN_A_NOTEBOOK} import lengthwise; print(lengthwise.__file__, lengthwise.run.__module__)"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.stdout.split() == [str(tmp_path / "lengthwise.py"), "orchestrator.api.run"], ended.stderr


@pytest.mark.parametrize("name", SIBLING_PACKAGES)
def test_another_package_that_was_imported_first_is_named(crowded, monkeypatch, name):
    other = ModuleType(name)
    other.__path__ = [str(crowded / name)]
    monkeypatch.setitem(sys.modules, name, other)
    with pytest.raises(ImportError, match=str(crowded / name)):
        protect_package_names()


def test_a_worker_that_cannot_import_the_engine_says_which_file_raised(tmp_path, monkeypatch):
    """Its message and traceback are those of the pack, which is not tried again."""
    (tmp_path / "torch.py").write_text("import absent_package\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    threading.Thread(target=(ended := threading.Event()).wait, daemon=True).start()  # no fork
    host = WorkerHost()
    driver = RecordingDriver("p1", work=empty_work(tmp_path))
    try:
        local.LocalScheduler(Resources(workers=1, retries=5), host.start_worker).run(driver)
    finally:
        host.close()
        ended.set()
    name, _, message, trace = driver.calls[-1]
    assert name == "on_failure" and [call[0] for call in driver.calls].count("on_failure") == 1
    assert message == f"ModuleNotFoundError: No module named 'absent_package' ({tmp_path / 'torch.py'}:1)"
    assert trace.startswith("Traceback") and "worker_host_process.py" in trace


def test_an_actor_that_cannot_import_the_pack_says_which_file_raised():
    trace = (
        'Traceback (most recent call last):\n  File "/ray/function_manager.py", line 696, in _load_actor_class\n'
        '    actor_class = pickle.loads(pickled_class)\n  File "/home/me/trainers/__init__.py", line 1, in <module>\n'
        "    import absent_package\nModuleNotFoundError: No module named 'absent_package'"
    )
    message = f"RuntimeError: The actor with name X failed to import on the worker.\n\n{trace}\n\n\nDuring handling ..."
    death = make_ray_death(RayActorError(error_msg=message))
    assert death.message == "ModuleNotFoundError: No module named 'absent_package' (/home/me/trainers/__init__.py:1)"
    assert death.trace == trace
