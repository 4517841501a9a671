"""Recurrent Feature Reasoning (Li et al. 2020), a baseline that shrinks the hole round by round in feature space."""

from typing import TYPE_CHECKING

from condvae.runtime.lazy import finder

if TYPE_CHECKING:
    from condvae.completers.feature_reasoning.reasoning_loss import FeatureReasoningLoss
    from condvae.completers.feature_reasoning.reasoning_network import FeatureReasoning, FeatureReasoningConfig

_HOMES = {
    "FeatureReasoning": "condvae.completers.feature_reasoning.reasoning_network",
    "FeatureReasoningConfig": "condvae.completers.feature_reasoning.reasoning_network",
    "FeatureReasoningLoss": "condvae.completers.feature_reasoning.reasoning_loss",
}

__all__ = ["FeatureReasoning", "FeatureReasoningConfig", "FeatureReasoningLoss"]

__getattr__ = finder(__name__, _HOMES)
