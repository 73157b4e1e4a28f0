"""Mining: the parameters of temporal templates, found in the traces of each client."""

from fedkg.mining.mined import Mined
from fedkg.mining.pick import Pick, least, private, quantile
from fedkg.mining.tight import mine

__all__ = ["Mined", "Pick", "least", "mine", "private", "quantile"]
