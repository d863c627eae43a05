"""Lists every installed package with its version and licence, as a bill of materials: `make licences`."""

from __future__ import annotations

import sys
from importlib.metadata import Distribution, distributions


def licence_of(package: Distribution) -> str:
    """The licence that a package declares, in the first line of what it says."""
    about = package.metadata
    classifiers = [each for each in about.get_all("Classifier", []) if each.startswith("License ::")]
    names = ", ".join(each.rpartition(" :: ")[2] for each in classifiers)
    said = about.get("License-Expression") or names or about.get("License") or "not declared"
    return said.strip().splitlines()[0]


def rows() -> list[tuple[str, str, str]]:
    """Name, version and licence of each installed package, by name."""
    found = {each.metadata["Name"]: each for each in distributions()}
    return [(name, found[name].version, licence_of(found[name])) for name in sorted(found, key=str.lower)]


if __name__ == "__main__":
    for row in rows():
        sys.stdout.write("\t".join(row) + "\n")
