"""How Sphinx builds the documentation: ``make docs``."""

from django_leased_cron import __version__

project = "django_leased_cron"
author = "django_leased_cron maintainers"
version = release = __version__

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = f"{project} {release}"
