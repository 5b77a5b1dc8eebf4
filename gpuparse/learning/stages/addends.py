"""The table of stages that learn scorers which are added to templates. A run has one at most."""

from gpuparse.learning.stages.stage import AddendStage
from gpuparse.learning.stages.vectors.stage import VectorStage

ADDEND_STAGES: tuple[type[AddendStage], ...] = (VectorStage,)
