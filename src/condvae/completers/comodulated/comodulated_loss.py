"""The loss of CoModGAN (Zhao et al. 2021): the logistic GAN loss, and an R1 penalty for the discriminator D.

    completer:      softplus(-D(x'))
    discriminator:  softplus(D(x')) + softplus(-D(x)) + (gamma / 2) |gradient of D at x|^2

x' are completions with the known pixels of x pasted in. The authors compute the penalty in every 16th step, times 16.
Here all steps are alike, so that a step can be recorded as a CUDA graph: each computes the penalty for a 16th of the
batch, which has the same expectation and about the same cost.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from condvae.completers.comodulated.comodulated_layers import GROUP
from condvae.completers.comodulated.comodulated_network import Comodulated, ComodulatedDiscriminator
from condvae.completers.learned_completer import CompleterLoss, Losses, without_gradients
from condvae.gaussian import full_precision
from condvae.noise import Noise


class ComodulatedLoss(CompleterLoss):
    """The losses of the completer and of its discriminator."""

    completer: Comodulated
    critic: ComodulatedDiscriminator
    figures = ("adversarial",)
    critic_figures = ("real", "fake", "r1")

    def __init__(self, completer: Comodulated) -> None:
        super().__init__()
        self.completer = completer
        self.critic = ComodulatedDiscriminator(completer.config)

    def forward(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        made = self.completer(x, known, noise)
        with without_gradients(self.critic):
            adversarial = F.softplus(-self.critic(made, known)).mean()
        return Losses(adversarial, {"adversarial": adversarial.detach()})

    def critic_loss(self, x: Tensor, known: Tensor, noise: Noise) -> Losses:
        with torch.no_grad():
            made = self.completer(x, known, noise)
        both = self.critic(torch.cat((x, made)), torch.cat((known, known)), batches=2)
        of_real, of_fake = both.chunk(2)
        parts = {"real": F.softplus(-of_real).mean(), "fake": F.softplus(of_fake).mean(), "r1": self._r1(x, known)}
        total = parts["real"] + parts["fake"] + parts["r1"]
        return Losses(total, {name: part.detach() for name, part in parts.items()})

    def _r1(self, x: Tensor, known: Tensor) -> Tensor:
        config = self.completer.config
        if not config.r1_weight:
            return torch.zeros((), device=x.device)
        some = r1_images(len(x), config.r1_part)
        return r1_penalty(lambda images: self.critic(images, known[:some]), x[:some], config.r1_weight)


def r1_images(batch: int, part: float) -> int:
    """Return the number of images for the R1 penalty: this part of a batch, as a multiple of 4 and at least 4.

    Of a smaller batch, all images are used.
    """
    return min(batch, max(GROUP, GROUP * round(batch * part / GROUP)))


def r1_penalty(critic: Callable[[Tensor], Tensor], x: Tensor, weight: float) -> Tensor:
    """Return weight / 2 times the mean over images of |gradient of the logit at x|^2, in float32.

    critic: any function from images [B, C, H, W] to logits [B]. The squares are summed over all pixels of an image. The
    penalty has gradients with respect to the weights of the critic.
    """
    with torch.autocast(x.device.type, enabled=False), torch.enable_grad():
        images = full_precision(x.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(critic(images).sum(), images, create_graph=True)
        return weight / 2 * slope.square().sum(dim=(1, 2, 3)).mean()
