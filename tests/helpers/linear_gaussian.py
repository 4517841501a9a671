"""A hierarchical VAE in which everything is linear and Gaussian, so that every quantity of the paper has a closed form.

Images have four grey pixels, x = B z + sigma e, and latent groups are z_l ~ N(A_l z_<l, prior_std_l^2). A variable is
represented by the matrix of its coefficients for independent standard normals, so covariances are matrix products.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from condvae.conditional import ConditionalVAE
from condvae.gaussian import Gaussian
from condvae.observe import Observation
from condvae.vdvae import VDVAE, Source
from condvae.vdvae.decoder import LatentBlock, PriorFeatures

PIXELS = 4
KNOWN = torch.tensor([True, True, False, False])


class LinearSource(nn.Module):
    """z_l ~ N(weight_l [z_<l, input], std_l^2): a prior, an encoder or a partial encoder."""

    def __init__(self, groups: Sequence[int], inputs: int, generator: torch.Generator) -> None:
        super().__init__()
        total = sum(groups)
        self.groups = list(groups)
        self.weights = nn.ParameterList(
            nn.Parameter(0.3 * torch.randn(d, total + inputs, generator=generator, dtype=torch.float64)) for d in groups
        )
        self.log_stds = nn.ParameterList(nn.Parameter(torch.zeros(d, dtype=torch.float64)) for d in groups)

    def gaussian(self, group: int, state: Tensor, inputs: Tensor) -> Gaussian:
        mean = torch.cat((state.flatten(1), inputs), 1) @ self.masked(group).T
        return Gaussian(mean[:, :, None, None], self.log_stds[group].expand_as(mean)[:, :, None, None])

    def masked(self, group: int) -> Tensor:
        """The weight with zeros for z_l and later groups, where the state is zero anyway."""
        weight: Tensor = self.weights[group].clone()
        weight[:, sum(self.groups[:group]) : sum(self.groups)] = 0
        return weight

    def rows(self, inputs: Tensor, first_noise: int) -> Tensor:
        """The coefficients of z for the normals of `inputs`; the noise of z itself starts at column `first_noise`."""
        total = sum(self.groups)
        z = torch.zeros(total, inputs.shape[1], dtype=torch.float64)
        start = 0
        for group, d in enumerate(self.groups):
            z[start : start + d] = (self.masked(group) @ torch.cat((z, inputs))).detach()
            columns = torch.arange(first_noise + start, first_noise + start + d)
            z[torch.arange(start, start + d), columns] += self.log_stds[group].exp().detach()
            start += d
        return z


class LinearBlock(LatentBlock):
    """A latent block whose state is all of z, with zeros for groups that are not drawn yet."""

    def __init__(self, prior: LinearSource, group: int) -> None:
        nn.Module.__init__(self)
        self.source, self.group = prior, group

    def features(self, state: Tensor, *, prior: bool = True) -> PriorFeatures:
        return PriorFeatures(state)

    def prior_of(self, features: PriorFeatures) -> Gaussian:
        state = features.hidden
        return self.source.gaussian(self.group, state, state.new_zeros(len(state), 0))

    def merge(self, state: Tensor, features: PriorFeatures, z: Tensor) -> Tensor:
        start = sum(self.source.groups[: self.group])
        return torch.cat((state[:, :start], z, state[:, start + z.shape[1] :]), 1)


class LinearDecoder:
    """A decoder with one stage, which has one block per latent group."""

    def __init__(self, prior: LinearSource) -> None:
        self.total = sum(prior.groups)
        self.blocks = [LinearBlock(prior, group) for group in range(len(prior.groups))]

    def levels(self) -> list[tuple[None, list[LinearBlock]]]:
        return [(None, self.blocks)]

    def enter(self, stage: None, coarser: None, batch: int) -> Tensor:
        return torch.zeros(batch, self.total, 1, 1, dtype=torch.float64)

    def leave(self, state: Tensor) -> Tensor:
        return state


class LinearVAE(VDVAE):
    """A VDVAE that uses the real `descend` with a linear decoder and a linear encoder."""

    def __init__(self, groups: Sequence[int], loading: Tensor, sigma: float, seed: int = 0) -> None:
        nn.Module.__init__(self)
        generator = torch.Generator().manual_seed(seed)
        self.groups = list(groups)
        self.loading = loading
        self.sigma = sigma
        self.prior = LinearSource(groups, 0, generator)
        self.q = LinearSource(groups, PIXELS, generator)
        self.config: Any = SimpleNamespace(group_stages=list(groups), image_dims=PIXELS, channels=1)
        self.decoder: Any = LinearDecoder(self.prior)

    def check(self, x: Tensor, *, name: str = "x", values: bool = True) -> None: ...

    def posterior(self, x: Tensor) -> Any:
        source: Source = lambda group, state, prior: self.q.gaussian(group, state, x.flatten(1))  # noqa: E731
        return source

    def pixel_log_prob(self, state: Tensor, x: Tensor) -> Tensor:
        mean = state.flatten(1) @ self.loading.T
        log_std = torch.full_like(mean, self.sigma).log()
        return Gaussian(mean, log_std).log_prob(x.flatten(1)).reshape(-1, 2, 2)

    def joint(self) -> tuple[Tensor, Tensor]:
        """The coefficients of (z, x) under the model, for the normals [noise of z, noise of pixels]."""
        total = sum(self.groups)
        z = self.prior.rows(torch.zeros(0, total + PIXELS, dtype=torch.float64), 0)
        noise = torch.zeros(PIXELS, total + PIXELS, dtype=torch.float64)
        noise[:, total:] = self.sigma * torch.eye(PIXELS, dtype=torch.float64)
        return z, self.loading @ z + noise

    def data_covariance(self) -> Tensor:
        _, x = self.joint()
        return x @ x.T

    @torch.no_grad()
    def fit_encoder(self) -> None:
        """Give q(z_l | z_<l, x) the posterior's means and variances: exact if a group's latents are independent."""
        z, x = self.joint()
        start = 0
        for group, d in enumerate(self.groups):
            inputs = torch.cat((z, x))
            used = torch.cat((torch.arange(start), torch.arange(len(z), len(inputs))))
            mean, covariance = regress(z[start : start + d], inputs[used])
            self.q.weights[group].zero_()
            self.q.weights[group][:, used] = mean
            self.q.log_stds[group].copy_(covariance.diagonal().log() / 2)
            start += d


class LinearConditional(ConditionalVAE):
    """A linear artifact with a linear partial encoder c(z | y), where y is the known pixels."""

    def __init__(self, artifact: LinearVAE, seed: int = 1) -> None:
        nn.Module.__init__(self)
        self.artifact = artifact.requires_grad_(False)
        self.c = LinearSource(artifact.groups, int(KNOWN.sum()), torch.Generator().manual_seed(seed))

    def posterior(self, observation: Observation) -> Any:
        assert observation.pixels is not None
        y = observation.pixels.flatten(1)[:, KNOWN]
        source: Source = lambda group, state, prior: self.c.gaussian(group, state, y)  # noqa: E731
        return source

    def c_given_y(self) -> tuple[Tensor, Tensor]:
        """Return (M, S) with c(z | y) = N(M y, S)."""
        total, inputs = sum(self.c.groups), int(KNOWN.sum())
        y = torch.zeros(inputs, inputs + total, dtype=torch.float64)
        y[:, :inputs] = torch.eye(inputs, dtype=torch.float64)
        z = self.c.rows(y, inputs)
        return z[:, :inputs], z[:, inputs:] @ z[:, inputs:].T

    def r_given_y(self) -> tuple[Tensor, Tensor]:
        """Return (M, S) with r(z | y) = N(M y, S), where r(z, x) = p_data(x) q(z | x)."""
        assert isinstance(self.artifact, LinearVAE)
        x = torch.zeros(PIXELS, PIXELS + sum(self.c.groups), dtype=torch.float64)
        x[:, :PIXELS] = torch.linalg.cholesky(self.artifact.data_covariance())
        return regress(self.artifact.q.rows(x, PIXELS), x[KNOWN])

    def p_given_y(self) -> tuple[Tensor, Tensor]:
        """Return (M, S) with p(z | y) = N(M y, S), the posterior of the model itself."""
        assert isinstance(self.artifact, LinearVAE)
        z, x = self.artifact.joint()
        return regress(z, x[KNOWN])


def regress(target: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Return M and S with target given inputs ~ N(M inputs, S), for variables given as coefficients of normals."""
    weight = torch.linalg.solve(inputs @ inputs.T, inputs @ target.T).T
    rest = target - weight @ inputs
    return weight, rest @ rest.T


def observe(x: Tensor) -> Observation:
    known = KNOWN.reshape(1, 1, 2, 2).expand(len(x), -1, -1, -1)
    return Observation(y=torch.where(known, x, 0.0), known=known, pixels=torch.where(known, x, 0.0))


def sigma_points(artifact: LinearVAE) -> tuple[Tensor, list[Tensor]]:
    """A batch of images and noise with exactly the second moments of the data and of standard normals.

    All objectives are quadratic in (x, noise) here, so the batch mean is the expectation, without sampling error.
    """
    k = PIXELS + sum(artifact.groups)
    basis, _ = torch.linalg.qr(torch.randn(k, k, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    points = torch.cat((basis, -basis)) * k**0.5
    x = points[:, :PIXELS] @ torch.linalg.cholesky(artifact.data_covariance()).T
    noise = points[:, PIXELS:].split(artifact.groups, dim=1)
    return x.reshape(-1, 1, 2, 2), [part[:, :, None, None] for part in noise]
