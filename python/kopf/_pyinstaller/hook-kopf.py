"""Modules that are imported by name, on first use."""

from PyInstaller.utils.hooks import collect_submodules

hiddenimports = ["kopf._kopf", *collect_submodules("kopf._front")]
