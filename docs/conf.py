"""Sphinx configuration."""

import holdtrue

project = "Holdtrue"
author = "The Holdtrue authors"
copyright = "The Holdtrue authors"
release = holdtrue.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "Holdtrue"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
exclude_patterns = ["_build"]
nitpicky = False
