"""The stages that learn what comes after templates, in their order."""

from gpuparse.learning.stages.stage import FurtherStage
from gpuparse.learning.stages.vectors.stage import VectorStage

FURTHER_STAGES: tuple[type[FurtherStage], ...] = (VectorStage,)
