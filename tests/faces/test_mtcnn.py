import pytest
import torch
from torch import nn

from condvae.faces.mtcnn import FILE, ProposalNet, face_networks, normalise, read_about


def test_the_networks_have_the_size_of_the_published_ones() -> None:
    counts = [sum(weight.numel() for weight in network.parameters()) for network in face_networks()]
    assert counts == [6_632, 100_178, 389_040]
    assert not any(weight.requires_grad for network in face_networks() for weight in network.parameters())
    assert face_networks() is face_networks()


def test_shapes_and_ranges() -> None:
    proposal, refinement, output = face_networks()
    x = torch.rand(3, 3, 48, 48) * 2 - 1
    probability, box = refinement(x[..., :24, :24])
    assert (probability.shape, box.shape) == ((3,), (3, 4)) and bool(((probability > 0) & (probability < 1)).all())
    probability, box, landmarks = output(x)
    assert (probability.shape, box.shape, landmarks.shape) == ((3,), (3, 4), (3, 5, 2))
    probability, box = proposal(x[..., :30, :40])
    assert (probability.shape, box.shape) == ((3, 10, 15), (3, 4, 10, 15))
    assert normalise(torch.tensor([127.5, 255.5])).tolist() == [0, 1]


def test_each_cell_of_the_proposal_network_sees_a_square_of_12_pixels() -> None:
    network = face_networks().proposal
    x = torch.rand(1, 3, 20, 24, generator=torch.Generator().manual_seed(0)) * 2 - 1
    probability, box = network(x)
    for i, j in ((0, 0), (1, 3), (4, 6)):
        top, left = ProposalNet.STEP * i, ProposalNet.STEP * j
        alone = network(x[..., top : top + ProposalNet.SIZE, left : left + ProposalNet.SIZE])
        assert alone[0].item() == pytest.approx(probability[0, i, j].item(), abs=1e-5)
        assert torch.allclose(alone[1].flatten(), box[0, :, i, j], atol=1e-5)


def test_the_file_states_its_origin_and_is_small() -> None:
    about = read_about()
    assert about["version"] == "2.6.0" and "facenet-pytorch" in about["source"] and "Zhang" in about["networks"]
    assert about["licence"].startswith("MIT License") and "Timothy Esler" in about["licence"]
    assert FILE.stat().st_size < 2**20
    assert all(isinstance(network, nn.Module) and not network.training for network in face_networks())
