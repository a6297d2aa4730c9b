"""Past one machine: the same work on a Ray cluster, with the same result."""

from bncl_pyg.distributed.engine import RayOptions
from bncl_pyg.distributed.inputs import is_remote, table_names
from bncl_pyg.distributed.ray_featurize import featurize_on_ray
from bncl_pyg.distributed.ray_graph import RayBlocks, ray_blocks
from bncl_pyg.distributed.ray_predict import predict_on_ray
from bncl_pyg.distributed.spooled import InputOptions, InputTexts

__all__ = [
    "InputOptions",
    "InputTexts",
    "RayBlocks",
    "RayOptions",
    "featurize_on_ray",
    "is_remote",
    "predict_on_ray",
    "ray_blocks",
    "table_names",
]
