"""Sphinx's settings of the documentation site (`make docs`)."""

import sys
import tomllib
from pathlib import Path

from tools.docsite.navigation import START

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT / "cocotbext"))  # the package cocotbext.nvmetap, which a checkout does not install
_package = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _package["name"].capitalize()
project_copyright = f"The Wattbell authors. {_package['license']}; hw/ CERN-OHL-P-2.0"
language = "en"
extensions = ["myst_parser", "sphinx.ext.autodoc", "tools.docsite"]

root_doc = START
source_suffix = {".md": "markdown"}

# Links go to headings by the anchors that GitHub makes, and the pages have the same anchors.
myst_heading_anchors = 6
myst_heading_anchors_html_ids = True
smartquotes = False

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
default_role = "code"
add_module_names = False
toc_object_entries = False

html_theme = "furo"
html_title = project
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
