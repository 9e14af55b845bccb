"""What a page shows of a sweep."""

from html.parser import HTMLParser

import pytest


class Page(HTMLParser):
    """Collects what a page refers to and the text it shows."""

    def __init__(self, content):
        super().__init__()
        self.tags, self.references, self.text, self.inside = [], [], [], ""
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag
        self.references += [value for key, value in attrs if key in ("src", "href", "srcset", "data", "action")]

    def handle_data(self, data):
        self.text += [data] if self.inside not in ("script", "style") else []


@pytest.fixture
def page_of():
    """The page in a file, parsed."""
    return lambda path: Page(path.read_text())
