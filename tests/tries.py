"""How often a property is tried: `@tries(40)` means 40 examples in `make slow`, and a quarter of
them in `make test`.

With `--hypothesis-profile=long` it means ten times as many.
"""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

USUAL = 50
QUICK, WHOLE, LONG, UNSHRUNK = "quick", "whole", "long", "unshrunk"

settings.register_profile(
    WHOLE,
    max_examples=USUAL,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(QUICK, settings.get_profile(WHOLE), max_examples=USUAL // 4)
settings.register_profile(LONG, settings.get_profile(WHOLE), max_examples=10 * USUAL)
settings.register_profile(
    UNSHRUNK,
    settings.get_profile(WHOLE),
    max_examples=USUAL * 2 // 5,
    phases=[Phase.explicit, Phase.generate],
)


def tries(count: int) -> settings:
    """Settings of a property with `count` examples; some profiles use more, and some fewer."""
    return settings(max_examples=max(1, count * settings().max_examples // USUAL))
