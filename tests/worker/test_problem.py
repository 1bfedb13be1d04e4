"""problem: loading, construction, inputs, state between calls, changed parameters."""

import copy
import inspect
import os
import sys
import tempfile
import textwrap
import unittest

import torch
from torch import nn

torch.set_num_threads(1)  # tiny tensors: threads only wait for each other
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "src", "worker"))
import problem  # noqa: E402
from problem import ProblemError  # noqa: E402

GOOD = """
    import torch
    import torch.nn as nn

    class Model(nn.Module):
        def __init__(self, width, bias=True):
            super().__init__()
            self.fc = nn.Linear(width, width, bias=bias)
            self.norm = nn.BatchNorm1d(width)
            self.seen = torch.zeros(2)

        def forward(self, x):
            self.seen += 1
            return self.norm(self.fc(x))

    if __name__ == "__main__":
        raise RuntimeError("run as a script")

    def get_inputs():
        return [torch.rand(8, 4), torch.arange(3), 2.5]

    def get_init_inputs():
        return [4]
"""


class Files(unittest.TestCase):
    count = 0

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def load(self, text, as_bytes=False, file_name="some file"):
        Files.count += 1
        self.name = f"kbv_test_problem_{Files.count}"
        data = text if isinstance(text, bytes) else textwrap.dedent(text).encode()
        source = data
        if not as_bytes:
            source = os.path.join(self.directory, file_name)
            with open(source, "wb") as file:
                file.write(data)
        module = problem.load_source(source, self.name)
        self.addCleanup(problem.unload, module)
        return module

    def failure(self, function, *args):
        with self.assertRaises(ProblemError) as caught:
            function(*args)
        error = caught.exception
        self.assertNotIn("\n", error.text)
        self.assertNotIn(self.directory, error.text)
        return error.kind, error.line, error.text


class Loading(Files):
    def test_good(self):
        for as_bytes in (False, True):
            module = self.load(GOOD, as_bytes)
            self.assertIs(sys.modules[self.name], module)
            self.assertIs(problem.find_class(module, "Model"), module.Model)
            self.assertIs(problem.find_get_inputs(module), module.get_inputs)
            self.assertIn("return self.norm(self.fc(x))", inspect.getsource(module.Model.forward))
            self.assertIn("class Model", inspect.getsource(module.Model))
            self.assertIn("torch.arange", inspect.getsource(module.get_inputs))

    def test_source_is_what_ran(self):
        module = self.load(GOOD)
        with open(module.__file__, "w") as file:
            file.write("def get_inputs(): return 'changed'\n")
        self.assertIn("torch.arange", inspect.getsource(module.get_inputs))

    def test_name_is_unique(self):
        module = self.load(GOOD)
        with self.assertRaises(ValueError):
            problem.load_source(module.__file__, self.name)
        problem.unload(module)
        problem.load_source(module.__file__, self.name)

    def test_text_forms(self):
        self.assertEqual(self.load(b"\xef\xbb\xbfx = '\xc3\xa9'\r\ny = 2\r\n").x, "\u00e9")
        self.assertEqual(self.load(b"# coding: latin-1\nx = '\xe9'\n").x, "\u00e9")
        self.assertEqual(self.load("from __future__ import annotations\nx: what = 1\n").x, 1)
        self.assertEqual(self.load(b"x = '\\d'").x, "\\d")  # no warning, no newline

    def test_failures(self):
        deep = "x = " + "(" * 5000 + ")" * 5000
        for text, kind, line, said in [
            ("", "empty", None, "the file has no statements"),
            ("# nothing\n\n'''docstring'''\n", "empty", None, "the file has no statements"),
            ("x = 1\nclass Model(:\n", "syntax", 2, "SyntaxError: invalid syntax"),
            ("def f():\nreturn\n", "syntax", 2, "IndentationError: expected an indented block "
             "after function definition on line 1"),
            (b"x = 1\ny = '\xff'\n", "encoding", 2, "the file is no text: UnicodeDecodeError"),
            (b"# coding: klingon\nx = 1\n", "encoding", None, "the file is no text: SyntaxError"),
            (b"x = 1\0\n", "syntax", None, None),
            (deep, "syntax", None, None),
            ("x = 1\nimport no_such_module_here\n", "import", 2,
             "ModuleNotFoundError: No module named 'no_such_module_here'"),
            ("from torch import nothing_of_it\n", "import", 1, None),
            ("def f():\n    return 1 / 0\n\nf()\n", "raised", 2,
             "ZeroDivisionError: division by zero"),
            ("import sys\nsys.exit(0)\n", "raised", 2, "SystemExit: 0"),
            ("raise KeyboardInterrupt\n", "raised", 1, "KeyboardInterrupt"),
            ("raise ValueError('one\\ntwo')\n", "raised", 1, "ValueError: one"),
            ("open('/no/such/dir/file.bin')\n", "raised", 1,
             "FileNotFoundError: [Errno 2] No such file or directory: 'file.bin'"),
            ("raise ValueError('a/b of https://x.org/y/z at ~/k/l, \\x1b[31m')\n", "raised", 1,
             "ValueError: a/b of https://x.org/y/z at l, ?[31m"),
            ("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E\n", "raised", 3,
             "E: (its text cannot be had)"),
        ]:
            with self.subTest(text=text[:50]):
                found = self.failure(self.load, text)
                self.assertEqual(found[0], kind)
                if kind != "syntax" or said is not None:
                    self.assertEqual(found[1], line)
                if said is not None:
                    self.assertEqual(found[2], said)
                self.assertNotIn(self.name, sys.modules)

    def test_long_text_is_cut(self):
        kind, line, text = self.failure(self.load, "raise ValueError('x' * 100000)")
        self.assertEqual(len(text), problem.TEXT_MAX)

    def test_missing_parts(self):
        module = self.load("import torch\nModel = 3\nclass Other: pass\nget_inputs = 1\n"
                           "def __getattr__(name): return torch.nn.Linear\n")
        for name in ("Model", "Other", "ModelNew"):
            self.assertEqual(self.failure(problem.find_class, module, name)[0], "no_model")
        self.assertEqual(self.failure(problem.find_get_inputs, module)[0], "no_get_inputs")
        self.assertEqual(problem.init_inputs(module, 0), [])


class Construction(Files):
    def make(self, module, inputs, seed=1, dtype=torch.float32):
        return problem.construct(module, "Model", inputs, seed, torch.device("cpu"), dtype)

    def test_seed_and_dtype(self):
        module = self.load(GOOD)
        inputs = problem.init_inputs(module, 0)
        one, two, three = (self.make(module, inputs, seed) for seed in (1, 1, 2))
        self.assertTrue(torch.equal(one.fc.weight, two.fc.weight))
        self.assertFalse(torch.equal(one.fc.weight, three.fc.weight))
        self.assertTrue(one.training)
        half = self.make(module, inputs, 1, torch.bfloat16)
        self.assertEqual(half.fc.weight.dtype, torch.bfloat16)
        self.assertEqual(half.norm.running_mean.dtype, torch.bfloat16)
        self.assertEqual(half.norm.num_batches_tracked.dtype, torch.int64)
        self.assertTrue(torch.equal(half.fc.weight, one.fc.weight.bfloat16()))

    def test_forms_of_init_inputs(self):
        module = self.load(GOOD)
        for inputs, biased in [([4], True), ((4, False), False),
                               ({"width": 4, "bias": False}, False),
                               ([[4], {"bias": False}], False), ([[4], {}], True),
                               ([(), {"width": 4}], True)]:
            self.assertEqual(self.make(module, inputs).fc.bias is not None, biased, inputs)
        both = self.load("""
            import torch
            class Model(torch.nn.Module):
                def __init__(self, layers, options):
                    super().__init__()
                    self.given = layers, options
        """)
        given = self.make(both, [[1, 2, 3], {"p": 0.5}]).given
        self.assertEqual(given, ([1, 2, 3], {"p": 0.5}))
        self.assertEqual(self.failure(self.make, both, 7)[0], "raised")

    def test_constructor_raises(self):
        module = self.load("""
            import torch
            class Model(torch.nn.Module):
                def __init__(self):
                    raise MemoryError("all of it")
        """)
        self.assertEqual(self.failure(self.make, module, []),
                         ("raised", 5, "MemoryError: all of it"))
        try:
            self.make(module, [])
        except ProblemError as error:
            self.assertIsInstance(error.__cause__, MemoryError)

    def test_to_double(self):
        model = problem.to_double(self.make(self.load(GOOD), [4]))
        self.assertEqual({model.fc.weight.dtype, model.norm.running_var.dtype, model.seen.dtype,
                          model(torch.rand(8, 4).double()).dtype}, {torch.float64})
        self.assertEqual(model.norm.num_batches_tracked.dtype, torch.int64)


class Inputs(Files):
    def test_draw(self):
        module = self.load(GOOD)
        one, two, other = (problem.draw_inputs(module, seed, "cpu", torch.float32)
                           for seed in (3, 3, 4))
        self.assertTrue(torch.equal(one[0], two[0]))
        self.assertFalse(torch.equal(one[0], other[0]))
        half = problem.draw_inputs(module, 3, torch.device("cpu"), torch.float16)
        self.assertTrue(torch.equal(half[0], one[0].half()))
        self.assertEqual((half[1].dtype, half[2]), (torch.int64, 2.5))

    def test_random_module_is_seeded(self):
        module = self.load("import random\ndef get_inputs(): return [random.random()]\n")
        draws = [problem.draw_inputs(module, 3, "cpu", torch.float32)[0] for _ in range(2)]
        self.assertEqual(draws[0], draws[1])

    def test_default_device_and_fallback(self):
        # The meta device stands in for a GPU: it shows where tensors were made.
        module = self.load("""
            import torch
            devices = []
            picky = False
            def get_inputs():
                x = torch.rand(2)
                devices.append(x.device.type)
                if picky and x.device.type != "cpu":
                    raise SystemExit(1)
                return [x]
        """)
        for picky, devices in ((False, ["meta"]), (True, ["meta", "cpu"])):
            module.picky = picky
            module.devices.clear()
            (x,) = problem.draw_inputs(module, 1, torch.device("meta"), torch.float32)
            self.assertEqual((module.devices, x.device.type), (devices, "meta"))
            self.assertEqual(torch.rand(1).device.type, "cpu")

    def test_bad_draws(self):
        for body in ("1 / 0", "None", "'text'", "[object()]", "{'x': 1}"):
            module = self.load(f"def get_inputs():\n    return {body}\n")
            self.assertEqual(self.failure(problem.draw_inputs, module, 1, "cpu", torch.float32)[0],
                             "raised")
        module = self.load("import torch\ndef get_inputs(): return torch.ones(2)\n")
        self.assertEqual(len(problem.draw_inputs(module, 1, "cpu", torch.float32)), 1)

    def test_cast(self):
        x = torch.rand(3)
        value = problem.cast([x, {"n": torch.arange(2)}, 1.5], torch.float64)
        self.assertEqual((value[0].dtype, value[1]["n"].dtype, value[2]),
                         (torch.float64, torch.int64, 1.5))
        self.assertIs(problem.cast(x, torch.float32), x)


class State(unittest.TestCase):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.register_buffer("kept", torch.zeros(2))
            self.alias = self.kept
            self.hidden = torch.zeros(3)
            self.cache = None

        def forward(self, x):
            self.hidden = self.hidden + x.sum(0)
            self.kept += 1
            self.cache = x
            self.late = x
            return self.norm(x) + self.hidden

    def test_restore(self):
        model = self.Recurrent()
        snapshot = problem.snapshot_state(model)
        before = model.hidden, model.kept, model.norm.running_mean
        x = torch.rand(5, 3)
        first = model(x)
        self.assertFalse(torch.equal(first, model(x)))
        problem.restore_state(model, snapshot)
        self.assertTrue(model.hidden is before[0] and model.kept is before[1]
                        and model.norm.running_mean is before[2] and model.alias is model.kept)
        self.assertFalse(model.hidden.any() or model.kept.any() or model.norm.running_mean.any())
        self.assertEqual(int(model.norm.num_batches_tracked), 0)
        self.assertIs(model.cache, x)
        self.assertIs(model.late, x)
        self.assertTrue(torch.equal(first, model(x)))

    def test_restore_what_was_reshaped_or_deleted(self):
        model = self.Recurrent()
        model.hidden.fill_(4)
        snapshot = problem.snapshot_state(model)
        hidden = model.hidden
        hidden.data = torch.zeros(9, dtype=torch.int64)
        del model.norm.running_var
        problem.restore_state(model, snapshot)
        self.assertIs(model.hidden, hidden)
        self.assertEqual(hidden.tolist(), [4.0, 4.0, 4.0])
        self.assertEqual(model.norm.running_var.tolist(), [1.0, 1.0, 1.0])
        hidden.fill_(5)  # the snapshot must not share what it put back
        problem.restore_state(model, snapshot)
        self.assertEqual(hidden.tolist(), [4.0, 4.0, 4.0])

    def test_parameters_are_not_state(self):
        model = nn.Linear(2, 2)
        self.assertEqual(problem.snapshot_state(model), [])


def tied():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.BatchNorm1d(3))
    model[1].weight = model[0].weight
    return model


class Parameters(unittest.TestCase):
    def test_named_state_keeps_tied_names(self):
        names = list(problem.named_state(tied()))
        self.assertIn("0.weight", names)
        self.assertIn("1.weight", names)
        self.assertIn("2.running_var", names)

    def test_copy(self):
        one, two = tied(), tied()
        pointer = two[0].weight.data_ptr()
        self.assertEqual(problem.copy_state(two, problem.named_state(one)), (True, ""))
        self.assertTrue(torch.equal(one[0].weight, two[0].weight))
        self.assertEqual(two[0].weight.data_ptr(), pointer)
        half = copy.deepcopy(two).half()
        self.assertTrue(problem.copy_state(half, problem.named_state(one))[0])
        self.assertTrue(torch.equal(half[0].weight, one[0].weight.half()))

    def test_copy_refuses_what_does_not_match(self):
        def source(**changed):
            state = dict(problem.named_state(nn.BatchNorm1d(3)))
            state.update(changed)
            return {name: tensor for name, tensor in state.items() if tensor is not None}

        for state, reason in [
            (source(scale=torch.ones(1)), "the model has no scale"),
            (source(bias=torch.ones(3, 1)), "bias has shape [3], not [3, 1]"),
        ]:
            model = nn.BatchNorm1d(3)
            state = {name: tensor + 1 for name, tensor in state.items()}
            self.assertEqual(problem.copy_state(model, state), (False, reason))
            self.assertEqual(model.weight.tolist(), [1.0] * 3, "written although refused")
        model = nn.BatchNorm1d(3)
        self.assertTrue(problem.copy_state(model, source(num_batches_tracked=None))[0])
        self.assertTrue(problem.copy_state(model, source(mask=torch.ones(2, dtype=torch.bool)))[0])
        # What the model has beside the source's does not excuse it from the source's.
        model.register_buffer("own", torch.zeros(1))
        self.assertTrue(problem.copy_state(model, source(bias=torch.ones(3)))[0])
        self.assertEqual(model.bias.tolist(), [1.0] * 3)

    def test_perturb(self):
        model = tied()
        model.register_buffer("mask", torch.ones(4, 4).tril())
        model.register_buffer("bound", torch.tensor([0.0, float("-inf")]))
        model.register_buffer("table", torch.arange(5.0))
        model.register_buffer("index", torch.arange(5))
        model.register_buffer("width", torch.full((2000,), 1e-3))
        before = copy.deepcopy(model)
        problem.perturb(model, 5)
        for name, tensor in problem.named_state(model).items():
            old = problem.named_state(before)[name]
            if name in ("mask", "bound", "table", "index", "2.num_batches_tracked"):
                self.assertTrue(torch.equal(tensor, old), name)
            else:
                self.assertTrue((tensor != old).all(), name)
                self.assertTrue(torch.isfinite(tensor).all(), name)
        self.assertGreater(float(model.width.min()), 0)
        self.assertGreater(float(model[2].running_var.min()), 0)
        self.assertIs(model[0].weight, model[1].weight)
        # A tied parameter is changed once.
        alone = nn.Sequential(copy.deepcopy(before[0]))
        problem.perturb(alone, 5)
        self.assertTrue(torch.equal(alone[0].weight, model[0].weight))

    def test_perturb_formula(self):
        model = nn.Linear(300, 300)
        with torch.no_grad():
            model.weight.fill_(2.0)
            model.bias.zero_()
        problem.perturb(model, 1)
        self.assertLess(abs(float(model.weight.detach().mean()) - 2), 0.02)
        self.assertLess(abs(float(model.weight.detach().std()) - (0.25 + 0.0025) ** 0.5), 0.01)
        self.assertLess(abs(float(model.bias.detach().std()) - 0.05), 0.01)

    def test_perturb_goes_by_name_and_seed(self):
        class Both(nn.Module):
            def __init__(self, names):
                super().__init__()
                for name in names:
                    self.register_parameter(name, nn.Parameter(torch.ones(9)))

        one, two, other = Both("ab"), Both("ba"), Both("ab")
        problem.perturb(one, 1)
        problem.perturb(two, 1)
        problem.perturb(other, 2)
        self.assertTrue(torch.equal(one.a, two.a) and torch.equal(one.b, two.b))
        self.assertFalse(torch.equal(one.a, one.b))
        self.assertFalse(torch.equal(one.a, other.a))


class PerturbedConstruction(unittest.TestCase):
    class Reference(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)
            self.norm = nn.BatchNorm2d(4)
            self.attention = nn.MultiheadAttention(4, 2)
            self.scale = nn.Parameter(torch.ones(4) * 2)
            self.shift = nn.Parameter(torch.zeros(4, 1, 1))
            self.weight = nn.Parameter(torch.empty(5, 5))
            nn.init.constant_(self.weight, 0.5)
            nn.init.zeros_(self.conv.bias)

    class Packed(nn.Module):
        """The same parameters, made by hand and packed at construction."""

        def __init__(self):
            super().__init__()
            conv = nn.Conv2d(3, 4, 3)
            norm = nn.BatchNorm2d(4)
            nn.MultiheadAttention(4, 2)
            scale, shift = nn.Parameter(torch.full((4,), 2.0)), nn.Parameter(torch.zeros(4, 1, 1))
            weight = nn.init.constant_(nn.Parameter(torch.empty(5, 5)), 0.5)
            nn.init.zeros_(conv.bias)
            self.packed = torch.cat([tensor.detach().flatten() for tensor in (
                conv.weight, conv.bias, norm.weight, norm.bias, scale, shift, weight)])

    def made(self, kind, seed):
        with problem.perturbed_construction(seed):
            torch.manual_seed(0)
            return kind()

    def test_no_parameter_is_constant(self):
        for name, parameter in self.made(self.Reference, 1).named_parameters():
            flat = parameter.detach().flatten()
            self.assertTrue(torch.isfinite(flat).all(), name)
            self.assertEqual(len(set(flat.tolist())), flat.numel(), name)

    def test_both_sides_get_the_same(self):
        reference, packed = self.made(self.Reference, 1), self.made(self.Packed, 1).packed
        expected = torch.cat([tensor.detach().flatten() for tensor in (
            reference.conv.weight, reference.conv.bias, reference.norm.weight, reference.norm.bias,
            reference.scale, reference.shift, reference.weight)])
        self.assertTrue(torch.equal(packed, expected))

    def test_seed_decides(self):
        one, other = self.made(self.Reference, 1), self.made(self.Reference, 2)
        for (name, left), right in zip(one.named_parameters(), other.parameters()):
            self.assertFalse(torch.equal(left, right), name)

    def test_lazy_and_frozen_and_recurrent(self):
        def several():
            return nn.ModuleList([nn.LazyLinear(3), nn.LSTM(3, 4), nn.Embedding(5, 3),
                                  nn.Linear(3, 3, bias=False).requires_grad_(False),
                                  nn.TransformerEncoderLayer(4, 2, 8)])

        made = self.made(several, 1)
        self.assertTrue(all(torch.isfinite(parameter).all() for parameter in made[1:].parameters()))

    def test_fresh_memory_is_no_constant(self):
        def fresh():
            return nn.Parameter(torch.empty(1000)), nn.Parameter(torch.zeros(1000))

        first, zeros = self.made(fresh, 1)
        self.assertTrue(first.isnan().all())
        self.assertTrue(zeros.all())

    def test_everything_is_restored(self):
        def patched():
            return ([vars(nn.init)[name] for name in dir(nn.init)], nn.Parameter.__new__,
                    nn.Linear.reset_parameters, nn.MultiheadAttention._reset_parameters,
                    torch.are_deterministic_algorithms_enabled(),
                    torch.utils.deterministic.fill_uninitialized_memory)

        before = patched()
        with self.assertRaises(KeyError):
            with problem.perturbed_construction(1):
                self.assertNotEqual(before, patched())
                raise KeyError
        self.assertEqual(before, patched())
        torch.manual_seed(0)
        self.assertFalse(nn.BatchNorm2d(4).bias.any())


if __name__ == "__main__":
    unittest.main()
