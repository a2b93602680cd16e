"""Where the catalog comes from: the copy that comes with agh, and a newer one from the network.

Promises: reading never fails for want of a network. A download counts only if it is a valid catalog; it is
kept for a day, then asked for again. Without a network the last copy is used, however old, and the copy that
comes with agh if there is none. Entries are data: nothing here runs anything.
"""

from __future__ import annotations

import os
import time

from agh import config
from agh.catalog.entries import Catalog, Entry, read_catalog
from agh.core.named_tuple import NamedTuple
from agh.errors import AghError, CatalogInvalid, DownloadFailed
from agh.home import cache_path, make_private_dir, replace_private_file

SNAPSHOT = os.path.join(os.path.dirname(__file__), "snapshot.json")
FRESH, RETRY = 24 * 3600.0, 600.0  # seconds that a copy counts as new; seconds between two attempts
MOST_BYTES, MOST_SECONDS = 4_000_000, 15.0


class Listing(NamedTuple):
    """The catalog in use: its entries, and a remark for the user if they may be out of date."""

    entries: dict[str, Entry]
    remark: str = ""


def load_catalog(refresh: bool | None = None) -> Listing:
    """Return the catalog. Download it if `refresh` is true, or if it is due and `refresh` is None."""
    bundled = read_bundled()
    url = str(config.load()["catalog.url"])
    copy, age = _read_copy()
    remark = ""
    if refresh or (refresh is None and url and _is_due(age)):
        try:
            copy, age = _download(url), 0.0
        except AghError as error:
            if refresh:
                raise
            remark = f"the list of agents could not be refreshed: {error.message}"
    # An agent that only agh's own copy has stays; of one that both have, the newer copy counts.
    return Listing(bundled.entries | copy.entries if copy else bundled.entries, remark)


def read_bundled() -> Catalog:
    """Return the catalog that comes with agh."""
    with open(SNAPSHOT, "rb") as file:
        return read_catalog(file.read())


def _read_copy() -> tuple[Catalog | None, float | None]:
    """Return the downloaded copy and its age in seconds; None if there is none that can be read."""
    try:
        with open(_copy_path(), "rb") as file:
            age = time.time() - os.fstat(file.fileno()).st_mtime
            return read_catalog(file.read(MOST_BYTES + 1)), age
    except (OSError, CatalogInvalid):
        return None, None


def _is_due(age: float | None) -> bool:
    """Tell whether to ask the network. A clock that was set back makes a copy old, not new for ever."""
    if age is not None and 0 <= age < FRESH:
        return False
    try:
        last = time.time() - os.stat(_attempt_path()).st_mtime
    except OSError:
        return True
    return not 0 <= last < RETRY


def _download(url: str) -> Catalog:
    """Fetch the catalog, check it and keep a copy. The attempt is noted, so that the next one can wait."""
    if not url:
        raise DownloadFailed(
            "the registry",
            "its address is empty in your config.toml",
            hint="agh config set catalog.url --unset",
        )
    from agh.catalog.download import fetch  # slow to import, and rarely needed

    _note_attempt()
    data = fetch(url, most=MOST_BYTES, seconds=MOST_SECONDS)
    catalog = read_catalog(data)
    try:
        replace_private_file(_copy_path(), data, sync=False)
    except OSError:
        pass  # it will be downloaded again
    return catalog


def _note_attempt() -> None:
    try:
        make_private_dir(cache_path())
        with open(_attempt_path(), "wb"):
            os.utime(_attempt_path())
    except OSError:
        pass


def _copy_path() -> str:
    return os.path.join(cache_path(), "catalog.json")


def _attempt_path() -> str:
    return os.path.join(cache_path(), "catalog.attempt")
