"""Links and pictures lead somewhere, and the trees of folders are those of the disk."""

import re

import pytest
from pages import PAGES, Page

EACH = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@EACH
def test_links_and_pictures_lead_somewhere(page: Page) -> None:
    for target in page.links:
        if re.match(r"[a-z]+://", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.folder / file).resolve() if file else page.path
        assert path.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in Page(path).anchors, f"{page.name} links to {target}, a heading that is not there"


@EACH
def test_trees_have_folders_only_and_they_exist(page: Page) -> None:
    entries = list(page.tree())
    assert len(entries) == len(set(entries))
    for entry in entries:
        assert entry.endswith("/"), f"the tree of {page.name} has {entry}: folders only"
        assert (page.folder / entry).is_dir(), f"the tree of {page.name} has {entry}, which is not there"
