"""The optimizer of the networks."""

import unittest

import torch

from optim import Muon, orthogonalise


class MuonTest(unittest.TestCase):
    SHAPES = [(6, 10), (10, 6), (6, 10), (8, 8), (10, 6), (6, 10)]

    def test_stacked_matrices_keep_their_singular_vectors(self):
        torch.manual_seed(3)
        for rows, cols in set(self.SHAPES):
            matrices = torch.randn(3, rows, cols)
            for matrix, found in zip(matrices, orthogonalise(matrices)):
                u, values, v = torch.linalg.svd(matrix, full_matrices=False)
                values = values / matrix.norm()
                for _ in range(5):
                    values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
                self.assertLess(float((found - u @ values.diag() @ v).abs().max()), 1e-4)

    def test_stacked_update_equals_separate_updates(self):
        torch.manual_seed(4)
        together = [torch.nn.Parameter(torch.randn(shape)) for shape in self.SHAPES + [(8, 8)]]
        alone = [torch.nn.Parameter(p.detach().clone()) for p in together]
        optimisers = [Muon(together, lr=0.1)] + [Muon([p], lr=0.1) for p in alone]
        for _ in range(3):
            # the last one has no gradient and stays unchanged
            for one, other in list(zip(together, alone))[:-1]:
                one.grad = torch.randn_like(one)
                other.grad = one.grad.clone()
            for optimiser in optimisers:
                optimiser.step()
        for one, other, optimiser in zip(together, alone, optimisers[1:]):
            self.assertLess(float((one - other).abs().max()), 1e-5)
            if one.grad is not None:
                momenta = [
                    o.state[p]["momentum"] for o, p in ((optimisers[0], one), (optimiser, other))
                ]
                self.assertLess(float((momenta[0] - momenta[1]).abs().max()), 1e-5)
        self.assertEqual(optimisers[0].state_dict()["state"].keys(), set(range(len(self.SHAPES))))


if __name__ == "__main__":
    unittest.main()
