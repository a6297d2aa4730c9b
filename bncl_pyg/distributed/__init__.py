"""Past one machine, or process: the same work on a Ray cluster or by torchrun, with the same result."""

from bncl_pyg.distributed.engine import RayOptions
from bncl_pyg.distributed.inputs import is_remote, table_names
from bncl_pyg.distributed.launch import LEFT_ALONE, LaunchError, launch, tell_missing
from bncl_pyg.distributed.ray_featurize import featurize_on_ray
from bncl_pyg.distributed.ray_graph import RayBlocks, ray_blocks
from bncl_pyg.distributed.ray_predict import predict_on_ray
from bncl_pyg.distributed.ray_train import train_on_ray
from bncl_pyg.distributed.spooled import InputOptions, InputTexts
from bncl_pyg.distributed.training import TrainingJob

__all__ = [
    "LEFT_ALONE",
    "InputOptions",
    "InputTexts",
    "LaunchError",
    "RayBlocks",
    "RayOptions",
    "TrainingJob",
    "featurize_on_ray",
    "is_remote",
    "launch",
    "predict_on_ray",
    "ray_blocks",
    "table_names",
    "tell_missing",
    "train_on_ray",
]
