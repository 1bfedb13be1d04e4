"""families: what each transform promises, the domains it stays in, and the controls."""

import os
import random
import sys
import unittest
from unittest import mock

import torch

torch.set_num_threads(1)  # tiny tensors: threads only wait for each other
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "src", "worker"))
import families  # noqa: E402
import tree  # noqa: E402
from families import Domain, NotApplicable  # noqa: E402

CHANGING = [family for family in families.INPUT_FAMILIES if family != "D1"]


def drawn(*shape, seed=0, dtype=torch.float32):
    """Uniform and never zero, so that tests about zeros place their own."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, generator=generator) * 0.9 + 0.01).to(dtype)


def one(family, tensor, seed=7, kind="any", axis=None, **more):
    """apply() on a single tensor of a given domain."""
    return families.apply(family, [tensor], seed, [Domain(kind, axis)], **more)[0]


def layouts():
    """(name, tensor) of every layout of memory that get_inputs() may return."""
    base = drawn(6, 40, 50)
    return [
        ("contiguous", base), ("transposed", base.transpose(0, 2)), ("sliced", base[:, ::3, 5:]),
        ("channels_last", drawn(2, 8, 9, 10).contiguous(memory_format=torch.channels_last)),
        ("expanded", drawn(1, 70).expand(30, 70)), ("scalar", drawn(1)[0]), ("single", drawn(1)),
        ("column", drawn(90, 1)), ("row", drawn(1, 90)), ("flat", drawn(20_000)),
        ("windows", drawn(100).as_strided((90, 8), (1, 1))),
    ]


class EveryFamily(unittest.TestCase):
    def test_form_stays(self):
        for name, tensor in layouts():
            for dtype in families.FLOATING:
                x = torch.empty_like(tensor, dtype=dtype).copy_(tensor) if name in (
                    "contiguous", "transposed", "channels_last") else tensor.to(dtype)
                before = x.clone()
                for family in families.INPUT_FAMILIES:
                    with self.subTest(layout=name, dtype=dtype, family=family):
                        if x.numel() == 1 and family in ("E4", "E5", "E6"):
                            self.assertRaises(NotApplicable, one, family, x)
                            continue
                        y = one(family, x)
                        self.assertEqual((y.dtype, y.shape, y.device, y.requires_grad),
                                         (x.dtype, x.shape, x.device, False))
                        if name != "windows":
                            self.assertEqual(y.stride(), x.stride())
                        self.assertTrue(torch.isfinite(y).all())
                        self.assertEqual(family == "D1", torch.equal(x, y))
                        self.assertTrue(torch.equal(x, before), "the draw itself was changed")

    def test_layout_has_no_influence_on_exact_transforms(self):
        for name, tensor in layouts():
            for family, factor in (("D2", 3.0), ("D3", 0.01), ("D4", -1.0)):
                self.assertTrue(torch.equal(one(family, tensor), tensor * factor), (name, family))

    def test_zero_entries_stay_zero(self):
        triangle = drawn(130, 130).triu()
        sparse = drawn(9000) * (torch.rand(9000) < 0.1)
        images = drawn(4, 3, 64, 64) * (torch.rand(4, 3, 64, 64) < 0.5)
        for tensor in (triangle, triangle.T, sparse, images):
            zero = tensor == 0
            for family in CHANGING:
                for seed in range(2):
                    y = one(family, tensor, seed)
                    self.assertFalse(y[zero].any(), family)
                    self.assertFalse(torch.signbit(y[zero]).any(), f"{family} made -0.0")
                    if family != "E5":  # it makes zeros, as the only one
                        self.assertTrue(y[~zero].all(), family)

    def test_symmetric_stays_symmetric(self):
        for shape in ((90, 90), (3, 40, 40), (1100, 1100)):
            x = drawn(*shape)
            x = x + x.mT
            for family in CHANGING:
                y = one(family, x, kind="symmetric")
                self.assertTrue(torch.equal(y, y.mT), family)
                self.assertFalse(torch.equal(x, y), family)

    def test_seed_decides(self):
        inputs = [drawn(100, 100), drawn(100, 100)]
        domain = [Domain("any")] * 2
        for family in CHANGING:
            y, z = (families.apply(family, inputs, 5, domain) for _ in range(2))
            self.assertTrue(torch.equal(y[0], z[0]) and torch.equal(y[1], z[1]), family)
            if family in ("E1", "E2", "E3", "E5", "E7"):
                other = families.apply(family, inputs, 6, domain)
                self.assertFalse(torch.equal(y[0], other[0]), f"{family} ignores the seed")
                self.assertFalse(torch.equal(y[0] / inputs[0], y[1] / inputs[1]),
                                 f"{family} treats all inputs alike")

    def test_global_generators_are_left_alone(self):
        torch.manual_seed(1)
        random.seed(1)
        before = torch.get_rng_state(), random.getstate()
        for family in CHANGING:
            one(family, drawn(50, 50))
        self.assertTrue(torch.equal(before[0], torch.get_rng_state()))
        self.assertEqual(before[1], random.getstate())

    def test_everything_else_stays(self):
        shared = drawn(8, 8)
        inputs = [shared, 3.14, {"n": torch.arange(4), "m": torch.tensor([True])}, (shared, None)]
        for family in families.INPUT_FAMILIES:
            y = families.apply(family, inputs, 3)
            self.assertEqual(tree.describe(y), tree.describe(inputs))
            self.assertEqual(tree.scalars(y), tree.scalars(inputs))
            self.assertIs(y[2]["n"], inputs[2]["n"])
            self.assertIs(y[0], y[3][0])

    def test_parameter_families_are_plain_draws(self):
        x = drawn(10)
        for family in families.PARAMETER_FAMILIES:
            self.assertTrue(torch.equal(one(family, x), x))
        self.assertRaises(ValueError, one, "E9", x)

    def test_in_place_needs_no_second_copy(self):
        for family in CHANGING:
            x = drawn(64, 64)
            expected = one(family, x)
            y = one(family, x, in_place=True)
            self.assertEqual(y.data_ptr(), x.data_ptr())
            self.assertTrue(torch.equal(y, expected), family)

    def test_pieces_make_no_difference(self):
        x = drawn(3, 50, 40)
        for family in ("D2", "E2", "E4", "E6"):
            whole = one(family, x)
            for size in (1, 7, 40, 1000, 2500):
                with mock.patch.object(families, "PIECE", size):
                    self.assertTrue(torch.allclose(one(family, x), whole), (family, size))
        with mock.patch.object(families, "PIECE", 100):
            for family in ("E1", "E3", "E5", "E7"):
                y = one(family, x)
                self.assertFalse(torch.equal(x, y), family)


class Transforms(unittest.TestCase):
    def test_random_signs(self):
        x = drawn(200, 200)
        y = one("E1", x)
        self.assertTrue(torch.equal(y.abs(), x))
        self.assertLess(abs(float((y < 0).float().mean()) - 0.5), 0.02)

    def test_global_scale(self):
        factors = []
        for seed in range(40):
            y = one("E2", drawn(30, 30), seed) / drawn(30, 30)
            self.assertLess(float(y.max() / y.min()) - 1, 1e-5)
            factors.append(float(y.mean()))
        self.assertGreaterEqual(min(factors), 2.0 ** -8 * 0.999)
        self.assertLessEqual(max(factors), 2.0 ** 8 * 1.001)
        self.assertLess(min(factors), 0.1)
        self.assertGreater(max(factors), 10)

    def test_outliers(self):
        for count in (100_000, 3):
            x = drawn(count)
            y = one("E3", x)
            hit = y != x
            self.assertTrue(torch.equal(y[hit], x[hit] * 64))
            self.assertGreaterEqual(int(hit.sum()), max(1, count // 1200))
            self.assertLessEqual(int(hit.sum()), max(1, count // 1000))
        self.assertFalse(torch.equal(one("E3", torch.eye(50)), torch.eye(50)), "hit only zeros")
        for seed in range(20):
            eye = torch.eye(2) + 0.5
            self.assertFalse(torch.equal(one("E3", eye, seed, "symmetric"), eye))

    def test_outliers_of_large_tensors(self):
        x = drawn(60_000)
        with mock.patch.object(families, "PIECE", 1000):
            hit = one("E3", x) != x
        self.assertGreaterEqual(int(hit.sum()), 50)

    def test_shift(self):
        x = torch.randn(30_000)
        for tensor in (x, x.double(), x.half()):
            y = one("E4", tensor)
            shift = (y.double() - tensor.double()).mean()
            self.assertLess(abs(float(shift / (5 * tensor.double().std())) - 1), 1e-3)
        with mock.patch.object(families, "PIECE", 999):
            self.assertLess(abs(families._std(x + 100) - float(x.std(correction=0))), 1e-3)

    def test_ties_and_zeros(self):
        x = drawn(60, 300)
        for seed in range(5):
            y = one("E5", x, seed)
            flat = y.flatten()
            equal = (flat[1:] == flat[:-1]) & (flat[1:] != 0)
            self.assertGreater(float(equal.float().mean()), 0.15)
            self.assertGreater(float((y == 0).float().mean()), 0.1)
            self.assertGreater(float((y == x).float().mean()), 0.1)
            self.assertTrue((y != 0).any(dim=1).all(), "a row that is zero as a whole")
            self.assertTrue(torch.isin(y[y != 0], x).all(), "values that were not drawn")
        for count in range(2, 9):
            small = drawn(count)
            self.assertFalse(torch.equal(one("E5", small), small))

    def test_sorted_and_ramped(self):
        x = torch.randn(12, 5, 33)
        y = one("E6", x)
        ramp = torch.linspace(0.5, 2, 12).view(12, 1, 1)
        self.assertTrue(torch.allclose(y, x.sort(-1).values * ramp))
        vector = torch.randn(50)
        self.assertTrue(torch.allclose(one("E6", vector), vector.sort().values
                                       * torch.linspace(0.5, 2, 50)))
        # Axes of one element are no axes.
        self.assertTrue(torch.equal(one("E6", x.view(1, 12, 5, 33, 1)), y.view(1, 12, 5, 33, 1)))

    def test_sort_keeps_the_places_of_zeros(self):
        x = torch.tensor([[3.0, 0.0, -1.0, 0.0, 2.0], [5.0, 4.0, 0.0, 0.0, -6.0]])
        expected = torch.tensor([[-1.0, 0.0, 2.0, 0.0, 3.0], [-6.0, 4.0, 0.0, 0.0, 5.0]])
        self.assertTrue(torch.equal(one("E6", x), expected * torch.tensor([[0.5], [2.0]])))

    def test_long_rows_are_sorted_in_runs(self):
        x = torch.randn(2, 100)
        with mock.patch.object(families, "SORT_MAX", 30):
            y = one("E6", x) / torch.tensor([[0.5], [2.0]])
        for run, drawn_run in zip(y.split(30, 1), x.split(30, 1)):
            self.assertTrue(torch.allclose(run, drawn_run.sort(-1).values))

    def test_mosaic_plan(self):
        names = list(families._MOSAIC)
        for total in (2, 3, 100, 4096, 8191, 8192, 10_000, 262_144, 300_001, 10_000_000):
            for seed in range(10):
                runs = families.mosaic_runs(total, names, random.Random(seed))
                self.assertEqual((runs[0][0], runs[-1][1]), (0, total))
                for before, after in zip(runs, runs[1:]):
                    self.assertEqual(before[1], after[0])
                    self.assertNotEqual(before[2], after[2])
                shortest = min(end - start for start, end, _ in runs)
                self.assertGreaterEqual(shortest, 4096 if total >= 8192 else max(1, total // 4))
                self.assertGreaterEqual(len(runs), 2)
                self.assertLessEqual(len(runs), 64)
        cuts = {families.mosaic_runs(100_000, names, random.Random(seed))[1][0]
                for seed in range(20)}
        self.assertGreater(len(cuts), 15, "the cuts are no secret")

    def test_mosaic(self):
        x = drawn(50_000)
        y = one("E7", x)
        plan = families.mosaic_runs(50_000, list(families._MOSAIC),
                                    random.Random(families._mix(7, "E7", 0)))
        shift = 5 * float(x.std(correction=0))
        for start, end, name in plan:
            before, after = x[start:end], y[start:end]
            expected = {"D1": before, "D2": before * 3, "D3": before * 0.01, "D4": -before,
                        "E1": before, "E4": before + shift}[name]
            if name == "E1":
                self.assertTrue((after < 0).any() and (after > 0).any())
                after = after.abs()
            self.assertTrue(torch.allclose(after, expected, rtol=1e-4), name)
        single = drawn(1)
        self.assertFalse(torch.equal(one("E7", single), single))


class Domains(unittest.TestCase):
    def detected(self, *draws):
        (domain,) = families.detect_domain([[draw] for draw in draws])
        return domain

    def test_free(self):
        for seed in range(20):
            torch.manual_seed(seed)
            for tensor in (torch.rand(100, 100), torch.rand(1), torch.rand(3), torch.randn(5000),
                           torch.rand(60, 60).half(), torch.rand(128, 64).bfloat16(),
                           torch.rand(64, 64).triu(), torch.rand(20, 20) * torch.rand(()),
                           torch.zeros(4, 4), torch.randn(90, 90).relu(), torch.rand(2, 2)):
                self.assertEqual(self.detected(tensor), Domain("any"))

    def test_constrained(self):
        square = torch.rand(30, 30)
        hot = torch.nn.functional.one_hot(torch.randint(0, 9, (50,)), 9).float()
        for tensor, kind, axis in [
            (torch.randint(0, 2, (300,)).float() * 2 - 1, "signs", None),
            (torch.randint(0, 2, (300,)).float(), "binary", None),
            (torch.ones(8), "binary", None),
            (hot, "one_hot", None),
            (torch.randint(0, 90, (300,)).float(), "integer_valued", None),
            (torch.arange(-5.0, 5.0), "integer_valued", None),
            (torch.randn(30, 20).softmax(1), "row_normalised", 1),
            (torch.randn(30, 20).softmax(0), "row_normalised", 0),
            (torch.randn(4, 7, 5).softmax(1), "row_normalised", 1),
            (torch.randn(64, 4096).softmax(-1).bfloat16(), "row_normalised", 1),
            (square + square.T, "symmetric", None),
            (torch.rand(100) + 0.5, "positive", None),
            (torch.randn(5000).abs() + 0.1, "positive", None),
            (torch.tensor([0.0, float("-inf")]), "nonfinite", None),
            (torch.arange(5), "untouched", None),
            (torch.ones(2, dtype=torch.complex64), "untouched", None),
            (torch.eye(3).to_sparse(), "untouched", None),
            (torch.zeros(0, 3), "untouched", None),
        ]:
            self.assertEqual(self.detected(tensor), Domain(kind, axis))

    def test_every_draw_counts(self):
        self.assertEqual(self.detected(torch.ones(1), -torch.ones(1)), Domain("signs"))
        self.assertEqual(self.detected(torch.ones(4), torch.rand(4)), Domain("any"))
        square = torch.rand(5, 5)
        self.assertEqual(self.detected(square + square.T, torch.rand(5, 5)), Domain("any"))
        self.assertRaises(ValueError, families.detect_domain, [])
        self.assertRaises(ValueError, families.detect_domain, [[square], [square, square.T]])

    def test_families_stay_in_the_domain(self):
        square = torch.rand(30, 30)
        for tensor, expected in [
            (torch.randint(0, 2, (9000,)).float() * 2 - 1, "E1 E5 E7"),
            (torch.rand(9000) + 0.5, "D2 D3 E2 E3 E4 E5 E6 E7"),
            (torch.randn(300, 40).softmax(1), "E3 E4 E5 E6 E7"),
            (torch.randn(300, 40).softmax(0), "E3 E4 E5 E6 E7"),
            (square + square.T, "D2 D3 D4 E1 E2 E3 E4 E5 E6 E7"),
            (torch.randint(0, 2, (90,)).float(), ""),
            (torch.arange(90.0), ""),
            (torch.tensor([0.0, float("inf"), 1.5]), ""),
        ]:
            domain = families.detect_domain([[tensor]])
            applied = []
            for family in CHANGING:
                try:
                    (y,) = families.apply(family, [tensor], 3, domain)
                except NotApplicable as reason:
                    self.assertIn("input 0", str(reason))
                    continue
                applied.append(family)
                self.assertFalse(torch.equal(y, tensor), family)
                if domain[0].kind == "positive":  # a scale may make it less evident
                    self.assertGreater(float(y.min()), 0, family)
                else:
                    self.assertEqual(families.detect_domain([[y]]), domain, family)
            self.assertEqual(" ".join(applied), expected, domain)

    def test_others_are_transformed(self):
        target = torch.randint(0, 2, (20,)).float() * 2 - 1
        inputs = [torch.rand(20, 20), target]
        domain = families.detect_domain([inputs])
        y = families.apply("D2", inputs, 1, domain)
        self.assertTrue(torch.equal(y[0], inputs[0] * 3))
        self.assertIs(y[1], target)

    def test_reasons(self):
        inputs = [torch.arange(3), torch.zeros(2), torch.randint(0, 2, (9,)).float()]
        with self.assertRaises(NotApplicable) as caught:
            families.apply("D2", inputs, 1)
        self.assertEqual(str(caught.exception), "D2 can change no input: input 0 holds no floats, "
                         "input 1 is all zero, input 2 holds only 0 and 1")
        with self.assertRaises(NotApplicable):
            families.apply("E1", [1, 2.0], 1)
        self.assertEqual(families.apply("D1", [1, 2.0], 1), [1, 2.0])


class Controls(unittest.TestCase):
    def test_controls(self):
        x, output = torch.randn(4, 5), torch.randn(4, 5) + 3
        found = families.controls(output, [torch.arange(4), x])
        self.assertEqual(tuple(found), families.CONTROLS)
        self.assertFalse(found["zero_output"][0].any())
        self.assertTrue(torch.allclose(found["mean_output"][0], output.mean().expand(4, 5)))
        self.assertTrue(torch.equal(found["input_returned"][0], x))
        for tensors in found.values():
            self.assertEqual((tensors[0].shape, tensors[0].dtype), (output.shape, output.dtype))

    def test_not_applicable(self):
        loss = torch.tensor(0.5)
        found = families.controls(loss, [torch.randn(4)])
        self.assertIsNone(found["mean_output"])
        self.assertIsNone(found["input_returned"])
        self.assertEqual(float(found["zero_output"][0]), 0)
        # An integer of the right shape is no output of a kernel that passes its input on.
        self.assertIsNone(families.control("input_returned", torch.zeros(4), [torch.arange(4)]))
        self.assertRaises(ValueError, families.control, "none", loss, [])

    def test_several_outputs(self):
        outputs = (torch.tensor([[1.0, float("inf"), 3.0]]), torch.tensor([1, 2, 9]),
                   torch.tensor(4.0))
        mean = families.control("mean_output", outputs, [])
        self.assertEqual([tensor.tolist() for tensor in mean], [[[2.0] * 3], [4] * 3, 4.0])
        x = torch.randn(2)
        back = families.control("input_returned", [torch.zeros(2, dtype=torch.float64)] * 2, [x])
        self.assertEqual(back[0].dtype, torch.float64)


if __name__ == "__main__":
    unittest.main()
