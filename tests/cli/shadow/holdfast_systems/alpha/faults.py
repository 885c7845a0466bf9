"""What can go wrong in alpha."""

from holdfast.catalog import CORE, Catalog

ALPHA = Catalog("alpha", docs="/errors/", extends=(CORE,))
ALPHA_TIRED = ALPHA.fault("ALPHA_TIRED", status=503, retry=True, says="Alpha is tired.", remedy="Let it sleep.")
