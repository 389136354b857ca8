"""What the properties share."""

from __future__ import annotations

import hypothesis

# A machine that does other things as well is slow now and then.
hypothesis.settings.register_profile("shared-machine", deadline=None)
hypothesis.settings.load_profile("shared-machine")
