"""Passwords and tokens in addresses: find and mask them."""

import re

MASK = "***"
_PASSWORDS = (  # the group is the part before the password or token
    re.compile(r"(https?://[^\s/:@]*:)(?:[^\s/]*@|(?!\d+[/?#])[^\s@]*@)"),  # with a slash if it is not a port
    re.compile(r"((?<!http)(?<!https)://[^\s/:@]*:)[^\s@]*@"),  # of a database, where it goes up to the @
    re.compile(r"(https?://)[^\s/:@]+@"),  # a token
)
_SECRETS = "token|password|passwd|pwd|secret|sig|signature|api[_-]?key"
_QUERY_SECRET = re.compile(rf"(?i)([?&][\w-]*(?:{_SECRETS})=)[^\s&#'\"]+")


def mask_passwords(text: str) -> str:
    """Return a text with all passwords and tokens in addresses masked.

    mask_passwords("http://ada:pw@host/x") -> "http://ada:***@host/x"
    """
    if "://" not in text:
        return text

    # A password is before the host; a token may also be in the query.
    for password in _PASSWORDS:
        text = password.sub(rf"\1{MASK}@", text)
    return _QUERY_SECRET.sub(rf"\1{MASK}", text)


def has_password(address: str) -> bool:
    """Return whether an address has a password or token that is not masked."""
    return mask_passwords(address) != address
