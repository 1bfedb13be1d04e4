"""dependence: how much of its inputs an output depends on."""

import os
import random
import sys
import unittest

import torch

torch.set_num_threads(1)
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "src", "worker"))
import dependence  # noqa: E402

BOUND = 0.84  # what 64 of 64 allow to say with 95%


class Dependence(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def share(self, function, *tensors):
        """Of the bytes of all tensors, for outputs function(*tensors)."""
        kept = [tensor.clone() for tensor in tensors]
        needed = dependence.needed_bytes(tensors, lambda: [function(*tensors)], random.Random(3))
        for tensor, before in zip(tensors, kept):
            self.assertTrue(torch.equal(tensor, before), "put back")
        return needed / sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def test_every_element_of_an_elementwise_operation(self):
        self.assertGreater(self.share(torch.relu, torch.randn(64, 1000)), BOUND)

    def test_every_element_of_a_sum(self):
        self.assertGreater(self.share(lambda x: x.mean(), torch.rand(1 << 20)), BOUND)

    def test_every_element_of_a_maximum_and_a_minimum(self):
        for reduce in (torch.amax, torch.amin):
            self.assertGreater(self.share(reduce, torch.randn(1000)), BOUND)

    def test_never_more_than_there_is(self):
        self.assertLess(self.share(torch.neg, torch.randn(5)), 1)

    def test_few_rows_of_a_table(self):
        table, rows = torch.randn(100000, 8), torch.randint(0, 100000, (16,))
        self.assertLess(self.share(lambda t, r: t[r], table, rows), 0.01)
        self.assertGreater(dependence.needed_bytes([rows], lambda: [table[rows]],
                                                   random.Random(4)), BOUND * 16 * 8)

    def test_a_product_with_one_hot_rows(self):
        """The rows must be read, and of the table what they pick."""
        hot = torch.eye(512)[torch.randint(0, 512, (4,))]
        table = torch.randn(512, 64)
        self.assertLess(self.share(lambda h, t: h @ t, hot, table), 0.2)

    def test_half_masked(self):
        mask = torch.arange(2000) % 2 == 0
        x = torch.randn(2000)
        needed = dependence.needed_bytes([x], lambda: [torch.where(mask, x, torch.zeros(()))],
                                         random.Random(5))
        self.assertTrue(0.15 < needed / 8000 < 0.55, needed)

    def test_masks_and_indices_are_changed_too(self):
        mask = torch.rand(500) < 0.5
        x = torch.randn(500)
        self.assertGreater(dependence.needed_bytes([mask], lambda: [x * mask], random.Random(6)),
                           BOUND * 500)

    def test_half_precision_does_not_overflow_its_way(self):
        self.assertGreater(self.share(torch.neg, torch.full((300,), 6e4, dtype=torch.float16)),
                           BOUND)

    def test_nan_is_no_change(self):
        x = torch.randn(100)
        needed = dependence.needed_bytes([x], lambda: [torch.full((3,), torch.nan)],
                                         random.Random(7))
        self.assertEqual(needed, 0)

    def test_outputs_that_differ_by_themselves_tell_nothing(self):
        x = torch.randn(100)
        self.assertEqual(dependence.needed_bytes([x], lambda: [x + torch.rand(())],
                                                 random.Random(8)), 0)

    def test_an_unused_and_an_empty_input(self):
        self.assertEqual(self.share(lambda x, y, z: x * 0 + 1, torch.ones(50), torch.ones(50),
                                    torch.ones(0)), 0)


if __name__ == "__main__":
    unittest.main()
