"""The site: `python -m sphinx -q -W docs build/site`, in the checkout's folder."""

from pygments.lexers.special import TextLexer

import gpuparse
from docs import reference

project = "gpuparse"
author = copyright = "the gpuparse authors"
version = release = gpuparse.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4  # links name headings as GitHub does
myst_links_external_new_tab = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
highlight_language = "none"

html_theme = "furo"
html_title = "gpuparse"
html_static_path = ["site"]
html_css_files = ["site.css"]
html_show_sphinx = html_copy_source = False


def setup(app):
    """Make pages from the code while the site is built."""
    app.add_lexer("conllu", TextLexer)
    app.add_lexer("output", TextLexer)
    app.connect("source-read", reference.add_contents)
    app.connect("source-read", reference.add_api)
    app.connect("source-read", reference.add_commands)
    app.connect("source-read", reference.name_pages)
    app.connect("autodoc-process-docstring", reference.as_rst)
