"""Our own packages as one file, for workers on machines without openclust."""

from __future__ import annotations

import zipfile
from pathlib import Path

import openclust
import topology

SUFFIXES = (".py", ".json", ".typed")


def zip_packages(folder: Path) -> Path:
    """Writes `openclust-packages.zip` into the folder, for `SparkContext.addPyFile`."""
    target = folder / "openclust-packages.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for package in (openclust, topology):
            if package.__file__ is None:
                continue
            root = Path(package.__file__).parent
            for path in sorted(root.rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    packed.write(path, path.relative_to(root.parent))
    return target
