"""tree: taking nested values apart, the descriptor, and what hostile values do to it."""

import collections
import os
import pickle
import sys
import unittest
import warnings

import torch

torch.set_num_threads(1)  # tiny tensors: threads only wait for each other
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "src", "worker"))
import tree  # noqa: E402

Pair = collections.namedtuple("Pair", "left right")


class Subclass(torch.Tensor):
    pass


class LyingMeta(type):
    def __eq__(cls, other):
        return True

    __hash__ = type.__hash__


class Liar(metaclass=LyingMeta):
    pass


def same(one, two):
    """Equality of nested values, by type, with tensors compared by content."""
    if type(one) is not type(two) and not isinstance(one, Pair):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one, two)
    if isinstance(one, (list, tuple)):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    return one == two


class Values(unittest.TestCase):
    SAMPLES = [
        torch.arange(6.0).view(2, 3),
        [], (), {}, None, True, -3, 2.5, 1 + 2j, "text", b"\0\xff", 1 << 200, float("inf"),
        torch.Size([2, 3]),
        [torch.zeros(2), (torch.ones(1, dtype=torch.int64), {"a": None, 3: [True]})],
        Pair(torch.zeros(()), [1, 2]),
        {"b": torch.zeros(0, 4), "a": [[], [()]]},
    ]

    def test_round_trip(self):
        for value in self.SAMPLES:
            tensors, skeleton = tree.flatten(value)
            self.assertTrue(same(value, tree.rebuild(skeleton, tensors)), value)

    def test_skeleton_travels(self):
        for value in self.SAMPLES:
            tensors, skeleton = tree.flatten(value)
            self.assertEqual(skeleton, pickle.loads(pickle.dumps(skeleton)))
            decoded = tree.decode(tree.encode(skeleton))
            self.assertEqual(skeleton, decoded)
            self.assertTrue(same(value, tree.rebuild(decoded, tensors)), value)

    def test_nan_and_types_of_scalars_survive(self):
        value = [float("nan"), True, 1, 1.0, "1"]
        back = tree.rebuild(tree.decode(tree.encode(tree.flatten(value)[1])), [])
        self.assertNotEqual(back[0], back[0])
        self.assertEqual([type(item) for item in back], [float, bool, int, float, str])

    def test_named_tuple_keeps_its_names(self):
        tensors, skeleton = tree.flatten(Pair(torch.zeros(1), 2))
        back = tree.rebuild(skeleton, tensors)
        self.assertEqual((type(back).__name__, back._fields), ("Pair", ("left", "right")))
        self.assertIs(back.left, tensors[0])

    def test_shared_tensors_stay_shared(self):
        x, y = torch.zeros(2), torch.zeros(2)
        tensors, skeleton = tree.flatten([x, y, {"again": x}])
        self.assertEqual(len(tensors), 2)
        back = tree.rebuild(skeleton, [torch.ones(2), torch.ones(2)])
        self.assertIs(back[0], back[2]["again"])
        self.assertIsNot(back[0], back[1])

    def test_descriptor(self):
        x, n = torch.zeros(16, 32), torch.zeros((), dtype=torch.int64)
        for value, text in [
            (x, "float32[16, 32]"),
            ((x, n), "tuple(float32[16, 32], int64[])"),
            ({"a": x.half(), "b": [n]}, "dict(a: float16[16, 32], b: list(int64[]))"),
            ({"a b": 1, 2: None}, "dict('a b': int, 2: None)"),
            ([1.0, True, "x"], "list(float, bool, str)"),
            (Pair(x, 1), "tuple(float32[16, 32], int)"),
            (torch.zeros(2, 2).max(0), "tuple(float32[2], int64[2])"),
            (x.bfloat16().bool(), "bool[16, 32]"),
            (torch.Size([3]), "size"),
            (torch.nn.Parameter(x), "float32[16, 32]"),
            (x.as_subclass(Subclass), "tensor subclass Subclass"),
            (torch.eye(2).to_sparse(), "sparse_coo tensor"),
        ]:
            self.assertEqual(tree.describe(value), text)

    def test_descriptor_tells_structures_apart(self):
        x = torch.zeros(2)
        values = [x, [x], (x,), [[x]], [x, x], {"a": x}, {"b": x}, x.double(), torch.zeros(2, 1),
                  [x, None], [x, 1], [x, 1.0], {1: x}, {"1": x}]
        self.assertEqual(len({tree.describe(value) for value in values}), len(values))

    def test_scalars(self):
        self.assertEqual(tree.scalars([1, {"a": (2.5, torch.zeros(1), None)}, torch.Size([4])]),
                         [1, 2.5, None, (4,)])


class Plain(unittest.TestCase):
    def test_plain(self):
        x = torch.zeros(3, 4)
        for tensor in (x, x.T, x[:, ::2], x.expand(2, 3, 4), torch.nn.Parameter(x), x.long(),
                       torch.zeros(0), torch.zeros(2, dtype=torch.complex64)):
            self.assertTrue(tree.is_plain(tensor))

    def test_not_plain(self):
        x, z = torch.eye(3), torch.zeros(2, dtype=torch.complex64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these kinds are in beta or on their way out
            compressed = x.to_sparse_csr()
            quantised = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
        for tensor in (x.as_subclass(Subclass), x.to_sparse(), compressed, quantised, x.to("meta"),
                       z.conj(), z.conj().imag, None, 1.0, [x]):
            self.assertFalse(tree.is_plain(tensor))

    def test_tensor_of_a_transform_is_not_plain(self):
        seen = []

        def function(tensor):
            seen.append(tree.is_plain(tensor))
            return tensor

        torch.func.vmap(function)(torch.zeros(2, 2))
        self.assertEqual(seen, [False])


class Hostile(unittest.TestCase):
    def refused(self, value):
        with self.assertRaises(tree.TreeError):
            tree.flatten(value)

    def test_types(self):
        class Number(int):
            pass

        class Items(list):
            pass

        class Odd(tuple):
            _fields = "no tuple"

        for value in (object(), Number(1), Items(), Odd(), {(1, 2): 3}, {object(): 1}, {1, 2},
                      lambda: None, Liar(), {Liar(): 1}):
            self.refused([value])

    def test_depth_and_cycles(self):
        value = torch.zeros(1)
        for _ in range(tree.DEPTH_MAX):
            value = [value]
        tree.describe(value)
        self.refused([value])
        cycle = []
        cycle.append(cycle)
        self.refused(cycle)
        for _ in range(100_000):
            value = [value]
        self.refused(value)

    def test_sizes(self):
        tree.flatten([0] * tree.LEAVES_MAX)
        self.refused([0] * (tree.LEAVES_MAX + 1))
        self.refused([None] * 10_000_000)
        blown = []
        for _ in range(30):  # 2^30 lists, without a leaf
            blown = [blown, blown]
        self.refused(blown)
        self.refused("x" * (tree.TEXT_MAX + 1))
        self.refused(1 << (tree.TEXT_MAX + 1))

    def test_malformed_skeletons(self):
        good = tree.flatten([torch.zeros(1), {"a": 1}])[1]
        for skeleton in [
            (), [], None, good[:-1], good + (("none",),), (("list", -1),), (("list", 10 ** 9),),
            (("tensor", 1, "float32", ()),), (("tensor", 0, "posix", ()),), (("system", "ls"),),
            (("tensor", 0, "float32", (-1,)),), (("namedtuple", "A", ("x y",)), ("none",)),
            (("namedtuple", "A; import os", ()),), (("scalar", object()),), (("size", (1.5,)),),
            (("dict", ("a", "a")), ("none",), ("none",)), (("list", 1),) * 40 + (("none",),),
            (("list", True), ("none",)),
        ]:
            with self.assertRaises(tree.TreeError, msg=skeleton):
                tree.rebuild(skeleton, [torch.zeros(1)])

    def test_missing_tensor(self):
        skeleton = tree.flatten([torch.zeros(1), torch.zeros(1)])[1]
        with self.assertRaises(tree.TreeError):
            tree.rebuild(skeleton, [torch.zeros(1)])

    def test_malformed_bytes(self):
        for data in (b"", b"{}", b"[]", b"[[]]", b"[1]", b"\xff", b"[" * 100_000, b"null",
                     b'[["scalar", ["int", "zz"]]]', b'[["scalar", ["object", 1]]]',
                     b'[["scalar", ["bool", 1]]]', b'[["tensor", 0, "float32", [[1]]]]',
                     b'[["dict", [["float"]]], ["none"]]', b" " * (tree.ENCODED_MAX + 1)):
            with self.assertRaises(tree.TreeError, msg=data[:40]):
                tree.decode(data)


if __name__ == "__main__":
    unittest.main()
