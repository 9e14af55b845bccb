"""Links and pictures lead somewhere, and the trees of folders are those of the disk."""

import re

import pytest
from pages import FOLDERS, PAGES, ROOT, Page, committed, page

EACH = pytest.mark.parametrize("one", PAGES, ids=lambda one: one.name)


def test_every_folder_of_code_has_a_page() -> None:
    folders = {path.parts[0] for path in committed() if path.suffix == ".py" and len(path.parts) > 1}
    assert {one.name for one in FOLDERS} == {f"{folder}/README.md" for folder in folders}


@EACH
def test_links_and_pictures_lead_somewhere(one: Page) -> None:
    for target in one.links:
        if re.match(r"[a-z]+://", target):
            continue
        file, _, anchor = target.partition("#")
        path = (one.folder / file).resolve() if file else one.path
        assert path.exists(), f"{one.name} links to {target}, which is not there"
        assert not anchor or anchor in Page(path).anchors, f"{one.name} links to {target}, a heading that is not there"


def test_the_front_page_links_every_other_page() -> None:
    front = page("README.md")
    assert {one.name for one in FOLDERS} <= set(front.links)
    assert "search_spaces/quickstart.png" in front.links


def test_pictures_are_small_and_pictures() -> None:
    pictures = list((ROOT / "search_spaces").rglob("*.png"))
    assert len(pictures) > 5
    for picture in pictures:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG\r\n") and len(content) < 300_000, picture


@EACH
def test_trees_have_folders_only_and_they_exist(one: Page) -> None:
    entries = list(one.tree())
    assert len(entries) == len(set(entries))
    for entry in entries:
        assert entry.endswith("/"), f"the tree of {one.name} has {entry}: folders only"
        assert (one.folder / entry).is_dir(), f"the tree of {one.name} has {entry}, which is not there"


def test_every_folder_is_in_the_tree_of_its_page() -> None:
    for one in FOLDERS:
        folders = {path.parts[1] for path in committed() if path.parts[0] == one.folder.name and len(path.parts) > 2}
        known = {entry.split("/")[0] for entry in one.tree()}
        assert folders <= known, f"{sorted(folders - known)} missing in the tree of {one.name}"
