"""The layers of the automatic pipeline, in the order in which they are asked.

To add one, write a module with a `Layer` and name it in LAYERS.
"""

from compact.situation import Layer

from .budget import BUDGET_LAYER
from .cold_return import COLD_RETURN_LAYER
from .collapse import COLLAPSE_LAYER
from .micro import MICRO_LAYER
from .snip import SNIP_LAYER
from .summary import SUMMARY_LAYER

# Cheap ones first. budget comes before micro, which would clear the results that budget has to store.
LAYERS: tuple[Layer, ...] = (
    BUDGET_LAYER,
    SNIP_LAYER,
    MICRO_LAYER,
    COLD_RETURN_LAYER,
    COLLAPSE_LAYER,
    SUMMARY_LAYER,
)
