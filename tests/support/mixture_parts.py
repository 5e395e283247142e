"""Clusters of rows, and Gaussian components for them."""

import math

import torch

from pyro_options.mixtures import GaussianComponents

COVARIANCES = ["full", "diagonal"]


def clusters(num_clusters=3, num_rows=60, size=2, seed=0, dtype=torch.float32):
    """Rows ``(N, D)`` on a wide circle, and the cluster of each."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num_rows) % num_clusters
    angle = 2 * math.pi * labels / num_clusters
    centre = 10 * torch.stack([angle.cos(), angle.sin(), *[torch.zeros(num_rows)] * (size - 2)], -1)
    return (centre + torch.randn(num_rows, size, generator=generator)).to(dtype), labels


def gaussians(rows, num_components=1, covariance="full"):
    """Components in float64 with a prior that is nothing special."""
    components = GaussianComponents(rows, num_components, covariance).double()
    for name in components.shared:
        torch.nn.init.normal_(getattr(components, name), std=0.5)
    return components
