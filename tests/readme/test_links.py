"""Links and pictures lead somewhere, and the trees of folders are those of the disk."""

import re

import pytest
from pages import PAGES, Page

EACH = pytest.mark.parametrize("one", PAGES, ids=lambda one: one.name)


@EACH
def test_links_and_pictures_lead_somewhere(one: Page) -> None:
    for target in one.links:
        if re.match(r"[a-z]+://", target):
            continue
        file, _, anchor = target.partition("#")
        path = (one.folder / file).resolve() if file else one.path
        assert path.exists(), f"{one.name} links to {target}, which is not there"
        assert not anchor or anchor in Page(path).anchors, f"{one.name} links to {target}, a heading that is not there"


@EACH
def test_trees_have_folders_only_and_they_exist(one: Page) -> None:
    entries = list(one.tree())
    assert len(entries) == len(set(entries))
    for entry in entries:
        assert entry.endswith("/"), f"the tree of {one.name} has {entry}: folders only"
        assert (one.folder / entry).is_dir(), f"the tree of {one.name} has {entry}, which is not there"
