"""Problems and candidates as Python objects: load, construct, draw inputs, keep and change state.

A problem is a Python file with `class Model`, `get_inputs()` and `get_init_inputs()`, a candidate
one with `class ModelNew`. The order of calls, on either side:

    module = load_source(path, "kbv_problem_1")
    find_class(module, "Model"); find_get_inputs(module)     # the latter: the problem's only
    model = construct(module, "Model", init_inputs(module, seed), seed, device, dtype)
    state = snapshot_state(model)
    inputs = draw_inputs(module, seed, device, dtype)
    restore_state(model, state); output = model(*inputs)     # each call

Whatever the file's own code raises, SystemExit included, comes as ProblemError with the line in
the file and one line of text; the exception itself is its __cause__ (a caller that must tell
exhausted memory from other failures looks there).
"""

import ast
import collections
import contextlib
import functools
import hashlib
import importlib.machinery
import importlib.util
import inspect
import linecache
import os
import random
import re
import sys
import types
import warnings

import torch
from torch import nn

import families
import tree

TEXT_MAX = 500  # characters of ProblemError.text

# As the command line names them.
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class ProblemError(Exception):
    """kind: "syntax", "encoding", "empty", "import", "no_model", "no_get_inputs" or "raised";
    line: in the loaded file, or None; text: one line without paths."""

    def __init__(self, kind, line, text):
        super().__init__(text)
        self.kind, self.line, self.text = kind, line, text


# --- Loading ---


def load_source(source, name):
    """Runs a file as a new module called `name`, which must be new to sys.modules.

    `source` is a path, or the bytes themselves. What the file is called has no influence. The
    module stands in sys.modules, and its text in linecache as it was read, so that
    inspect.getsource and what builds on it (Triton, torch.compile) see what runs even if the file
    changes. Triton also wants the file to exist: give the path of a copy that stays. On failure
    nothing is left behind."""
    if name in sys.modules:
        raise ValueError(f"a module {name!r} is loaded already")
    if isinstance(source, bytes):
        data, path = source, f"<{name}>"
    else:
        path = os.path.abspath(source)
        with open(path, "rb") as file:
            data = file.read()

    text = _decoded(data)
    code = _compiled(text, path)
    module = types.ModuleType(name)
    module.__file__ = path
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, origin=path)
    sys.modules[name] = module
    # No modification time: checkcache() then never drops the entry.
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    try:
        exec(code, module.__dict__)
    except BaseException as error:
        sys.modules.pop(name, None)
        linecache.cache.pop(path, None)
        kind = "import" if isinstance(error, ImportError) else "raised"
        raise _problem_error(kind, error, path) from error
    # A module may put something else in its place; callers and pickle must see the same.
    sys.modules[name] = module
    return module


def unload(module):
    """Takes a loaded module out of sys.modules and linecache."""
    sys.modules.pop(module.__name__, None)
    linecache.cache.pop(module.__file__, None)


def find_class(module, class_name):
    """The module's nn.Module class of that name, or ProblemError("no_model")."""
    found = vars(module).get(class_name)  # not getattr: the module may define __getattr__
    if found is None:
        raise ProblemError("no_model", None, f"there is no class {class_name}")
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise ProblemError("no_model", None, f"{class_name} is no subclass of torch.nn.Module")
    return found


def find_get_inputs(module):
    """The module's get_inputs, or ProblemError("no_get_inputs")."""
    found = vars(module).get("get_inputs")
    if not callable(found):
        raise ProblemError("no_get_inputs", None, "there is no function get_inputs()")
    return found


def explain(error, path=None):
    """(line, text) of an exception: the innermost line in the file at `path` (None: not there),
    and one line, "TypeError: unsupported operand", of bounded length and without directories."""
    line = None
    if isinstance(error, SyntaxError) and path is not None and error.filename == path:
        line = error.lineno
    else:
        step = error.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename == path:
                line = step.tb_lineno
            step = step.tb_next
    try:
        # SyntaxError's own text repeats the file's name and the line.
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        lines = [part.strip() for part in str(said).splitlines() if part.strip()]
    except BaseException:  # a hostile __str__
        lines = ["(its text cannot be had)"]
    text = type(error).__name__ + (f": {lines[0]}" if lines else "")
    text = re.sub(r"(?<![\w.:/~-])~?/(?:[\w.+@~-]+/)+", "", text)
    text = "".join(char if char.isprintable() else "?" for char in text)
    if len(text) > TEXT_MAX:
        text = text[:TEXT_MAX - 3] + "..."
    return line, text


def _problem_error(kind, error, path):
    return ProblemError(kind, *explain(error, path))


def _decoded(data):
    try:
        return importlib.util.decode_source(data)
    except (UnicodeDecodeError, SyntaxError, LookupError) as error:
        # A declared encoding that does not exist is a SyntaxError, bad bytes are either.
        line = None
        if isinstance(error, UnicodeDecodeError):
            line = data.count(b"\n", 0, error.start) + 1
        raise ProblemError("encoding", line, f"the file is no text: {type(error).__name__}") \
            from error


def _compiled(text, path):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" and its like
            parsed = ast.parse(text, path)
            if not [part for part in parsed.body if not _is_docstring(part)]:
                raise ProblemError("empty", None, "the file has no statements")
            return compile(parsed, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        # ValueError: NUL bytes; the others: nested beyond what the compiler takes.
        raise _problem_error("syntax", error, path) from error


def _is_docstring(statement):
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _guarded(module, function, *args, **kwargs):
    """Calls the file's own code; what it raises becomes a ProblemError."""
    try:
        return function(*args, **kwargs)
    except ProblemError:
        raise
    except BaseException as error:
        raise _problem_error("raised", error, module.__file__) from error


# --- Construction ---


def seed_all(seed):
    """Every generator that a problem may draw from: torch on all devices, random, and numpy where
    it is loaded."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def init_inputs(module, seed):
    """What get_init_inputs() returns under `seed`; [] where a file has none."""
    function = vars(module).get("get_init_inputs")
    if function is None:
        return []
    seed_all(seed)
    return _guarded(module, function)


def construct(module, class_name, init_inputs, seed, device, dtype):
    """An instance of the class, made under `seed` on the CPU, so that both sides draw the same
    parameters whatever the device; then moved to `device` and, unless `dtype` is float32, its
    floating parameters and buffers cast. Training mode stays as the constructor left it.

    `init_inputs`: a list or tuple of positional arguments, a dict of named ones, or both,
    [[positional], {named}]."""
    maker = find_class(module, class_name)
    args, kwargs = _init_arguments(maker, init_inputs)

    def make():
        with torch.no_grad():
            model = maker(*args, **kwargs).to(device)
            return model if dtype is torch.float32 else model.to(dtype)

    seed_all(seed)
    return _guarded(module, make)


def _init_arguments(maker, init_inputs):
    if isinstance(init_inputs, dict):
        return (), init_inputs
    if not isinstance(init_inputs, (list, tuple)):
        raise ProblemError("raised", None, "get_init_inputs() returned "
                           f"{type(init_inputs).__name__}, not a list")
    if (len(init_inputs) == 2 and isinstance(init_inputs[0], (list, tuple))
            and isinstance(init_inputs[1], dict)
            and all(isinstance(key, str) for key in init_inputs[1])):
        # [[3, 4], {}] may also be two positional arguments: it is that only where the
        # constructor does not take the other reading.
        try:
            inspect.signature(maker).bind(*init_inputs[0], **init_inputs[1])
            return tuple(init_inputs[0]), init_inputs[1]
        except (TypeError, ValueError):
            pass
    return tuple(init_inputs), {}


def to_double(model):
    """The same model in float64, for the oracle: floating parameters and buffers, and also tensors
    that are plain attributes, which model.to() forgets."""
    model.to(torch.float64)
    with torch.no_grad():
        for module in model.modules():
            for name, tensor in list(module.__dict__.items()):
                if isinstance(tensor, torch.Tensor):
                    module.__dict__[name] = _cast(tensor, torch.float64)
    return model


# --- Inputs ---


def draw_inputs(module, seed, device, dtype):
    """A list of get_inputs()' values under `seed`: tensors on `device`, the floating ones cast to
    `dtype`. The function runs with `device` as the default one, so that large tensors are made
    where they are needed; code that this breaks (a generator of the CPU, numpy) runs again
    without."""
    device = torch.device(device)

    def drawn():
        seed_all(seed)
        return module.get_inputs()

    values = None
    if device.type != "cpu":
        # Nothing is kept of the failure: its frames would hold what they had drawn by then.
        with contextlib.suppress(BaseException), device:
            values = drawn()
    if values is None:
        values = _guarded(module, drawn)
    if isinstance(values, torch.Tensor):
        values = [values]
    if not isinstance(values, (list, tuple)):
        raise ProblemError("raised", None,
                           f"get_inputs() returned {type(values).__name__}, not a list")
    try:
        return list(_mapped(list(values), lambda tensor: _cast(tensor.detach().to(device), dtype)))
    except tree.TreeError as error:
        raise ProblemError("raised", None, f"get_inputs() returned {error}") from error


def cast(value, dtype):
    """The nested value with its floating tensors in `dtype`; integers, booleans and scalars stay.
    Tensors that have it already are the same objects."""
    return _mapped(value, lambda tensor: _cast(tensor, dtype))


def _cast(tensor, dtype):
    return tensor.to(dtype) if tensor.dtype in families.FLOATING else tensor


def _mapped(value, function):
    tensors, skeleton = tree.flatten(value)
    return tree.rebuild(skeleton, [function(tensor) for tensor in tensors])


# --- State between calls ---

_Saved = collections.namedtuple("_Saved", "module is_buffer name tensor contents")


def snapshot_state(model):
    """What a forward may leave behind: every buffer and every tensor that is a plain attribute of
    a submodule, with a copy of its contents. Parameters are not part of it."""
    saved, copies = [], {}
    with torch.no_grad():
        for module in model.modules():
            for place in (module._buffers, module.__dict__):
                for name, tensor in list(place.items()):
                    if not isinstance(tensor, torch.Tensor) or isinstance(tensor, nn.Parameter):
                        continue
                    if id(tensor) not in copies:
                        copies[id(tensor)] = tensor.detach().clone()
                    saved.append(_Saved(module, place is module._buffers, name, tensor,
                                        copies[id(tensor)]))
    return saved


def restore_state(model, snapshot):
    """Binds every saved tensor to its name again and puts its contents back in place. Attributes
    that came later, and those that were no tensors, stay: a cache is the model's own affair.
    Copies even what looks untouched: a kernel that writes through a raw pointer leaves no trace in
    torch's version counter."""
    written = set()
    with torch.no_grad():
        for module, is_buffer, name, tensor, contents in snapshot:
            (module._buffers if is_buffer else module.__dict__)[name] = tensor
            if id(tensor) in written:
                continue
            written.add(id(tensor))
            if (tensor.shape == contents.shape and tensor.dtype == contents.dtype
                    and tensor.device == contents.device):
                _put_back(tensor, contents)
            else:  # resized or moved through .data
                tensor.data = contents.clone()


def _put_back(tensor, contents):
    """Also where elements share memory (expanded tensors): only what is stored is written."""
    target = tensor.detach()
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride())):
        if size > 1 and stride == 0:
            target, contents = target.narrow(axis, 0, 1), contents.narrow(axis, 0, 1)
    with torch.inference_mode(tensor.is_inference()):
        target.copy_(contents)


# --- Parameters ---


def named_state(model):
    """Parameters and buffers by name, in the model's order; a tied tensor stands under each of its
    names."""
    state = collections.OrderedDict(model.named_parameters(remove_duplicate=False))
    state.update(model.named_buffers(remove_duplicate=False))
    return state


def copy_state(model, source):
    """Copies `source` (names to tensors, from named_state of the other side) into the model, in
    place, where contents differ. Returns (matched, reason); nothing is written unless the model has
    every floating tensor of the source, in its shape. What it has beside them is its own affair.
    Other tensors (counters, masks, index tables) are constants of an implementation: they are
    copied where both sides have them."""
    own = named_state(model)
    for name, tensor in source.items():
        if name not in own:
            if tensor.is_floating_point():
                return False, f"the model has no {name}"
        elif tensor.is_floating_point() and own[name].shape != tensor.shape:
            return False, f"{name} has shape {list(own[name].shape)}, not {list(tensor.shape)}"
    with torch.no_grad():
        for name, tensor in own.items():
            if name not in source or tensor.shape != source[name].shape:
                continue
            given = source[name].detach().to(device=tensor.device, dtype=tensor.dtype)
            if not torch.equal(tensor, given):
                tensor.detach().copy_(given)
    return True, ""


def perturb(model, seed):
    """P2: every floating parameter and buffer becomes x (1 + 0.25 n) + 0.05 n', n and n' standard
    normal, from a generator seeded with (seed, name): the order of modules has no influence.

    Variances (running_var, and every buffer that is positive throughout) stay positive. Buffers
    that are masks or tables, not values (several whole numbers and nothing else, or infinities),
    stay as they are: a causal mask of zeros and ones is part of the problem's definition."""
    done = set()
    parameters = dict(model.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name, tensor in named_state(model).items():
            if id(tensor) in done or tensor.dtype not in families.FLOATING or not tensor.numel():
                continue
            done.add(id(tensor))
            positive = False
            if name not in parameters:
                if _is_table(tensor):
                    continue
                positive = name.endswith("running_var") or bool((tensor > 0).all())
            changed = _noisy(tensor, (seed, name))
            if positive:
                # Half of what it was at least: no variance falls to nothing by chance.
                changed = torch.maximum(changed.abs(), tensor.abs() / 2).clamp_(min=1e-4)
            tensor.detach().copy_(changed)


def _is_table(buffer):
    if not bool(torch.isfinite(buffer).all()):
        return True
    whole = bool((buffer == buffer.round()).all())
    return whole and bool((buffer != buffer.reshape(-1)[0]).any())


def _noisy(tensor, key):
    """x (1 + 0.25 n) + 0.05 n' in a new tensor. The normals are independent: with one n, every x
    near -0.2 would stay what it is."""
    text = "\0".join(str(part) for part in key)
    generator = torch.Generator(tensor.device)
    generator.manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1)
    scale, offset = (torch.randn(tensor.shape, generator=generator, device=tensor.device)
                     for _ in range(2))
    wide = tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))
    return (wide * (1 + 0.25 * scale) + 0.05 * offset).to(tensor.dtype)


# --- Perturbed construction ---


@contextlib.contextmanager
def perturbed_construction(seed):
    """While it lasts, what initialisers leave is changed as in perturb(): parameters that are
    constant at construction (zero bias, unit gamma) come out different, also for a model that
    packs or copies them in its constructor. Covers torch.nn.init, reset_parameters of every
    torch.nn class, and parameters made of a constant tensor, nn.Parameter(torch.zeros(n)).

    Two models get the same values where they initialise tensors of equal shape and equal former
    contents in the same order; contents that vary count as one kind. Enter it after loading the
    module, around construct(). Not for several threads."""
    noise = _ConstructionNoise(seed)
    with contextlib.ExitStack() as undo:
        noise.install(undo)
        yield


class _ConstructionNoise:
    def __init__(self, seed):
        self.seed = seed
        self.depth = 0  # of initialisers inside each other; the outermost adds the noise
        self.counts = collections.Counter()

    def install(self, undo):
        # Deterministic mode fills fresh memory with NaN: what was never initialised then never
        # looks constant by accident.
        was = (torch.are_deterministic_algorithms_enabled(),
               torch.is_deterministic_algorithms_warn_only_enabled())
        fill = torch.utils.deterministic.fill_uninitialized_memory
        undo.callback(lambda: torch.use_deterministic_algorithms(was[0], warn_only=was[1]))
        undo.callback(setattr, torch.utils.deterministic, "fill_uninitialized_memory", fill)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = True

        for name, function in list(vars(nn.init).items()):
            if name.endswith("_") and not name.startswith("_") and callable(function):
                self._replace(undo, nn.init, name, self._initialiser(function))
        for owner in _torch_modules():
            for name in ("reset_parameters", "_reset_parameters"):
                if name in vars(owner):
                    self._replace(undo, owner, name, self._reset(vars(owner)[name]))
        self._replace(undo, nn.Parameter, "__new__", staticmethod(self._parameter))

    @staticmethod
    def _replace(undo, owner, name, value):
        undo.callback(setattr, owner, name, vars(owner)[name])
        setattr(owner, name, value)

    def _initialiser(self, function):
        @functools.wraps(function)
        def initialise(tensor, *args, **kwargs):
            with self._inside():
                result = function(tensor, *args, **kwargs)
            self._add(tensor)
            return result
        return initialise

    def _reset(self, function):
        @functools.wraps(function)
        def reset(module, *args, **kwargs):
            with self._inside():
                result = function(module, *args, **kwargs)
            own = set(map(id, module._parameters.values()))
            for parameter in module.parameters():
                # nn.MultiheadAttention zeroes a parameter of its child here.
                if id(parameter) in own or _is_constant(parameter):
                    self._add(parameter)
            return result
        return reset

    def _parameter(self, cls, data=None, requires_grad=True):
        if type(data) is torch.Tensor and _is_constant(data):
            data = self._changed(data)
        return _new_parameter(cls, data, requires_grad)

    @contextlib.contextmanager
    def _inside(self):
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def _add(self, tensor):
        if (self.depth == 0 and isinstance(tensor, torch.Tensor) and not _is_lazy(tensor)
                and tensor.dtype in families.FLOATING and tensor.numel()):
            with torch.no_grad():
                tensor.detach().copy_(self._changed(tensor))

    def _changed(self, tensor):
        kind = float(tensor.detach().reshape(-1)[0]) if _is_constant(tensor) else "varied"
        key = (tuple(tensor.shape), kind)
        self.counts[key] += 1
        with torch.no_grad():
            return _noisy(tensor, (self.seed, *key, self.counts[key]))


_new_parameter = nn.Parameter.__new__


def _is_lazy(tensor):
    return tensor.is_meta or isinstance(tensor, nn.parameter.UninitializedTensorMixin)


def _is_constant(tensor):
    if _is_lazy(tensor) or tensor.dtype not in families.FLOATING or not tensor.numel():
        return False
    first = tensor.detach().reshape(-1)[0]
    return bool((tensor.detach() == first).all())  # never true of NaN


def _torch_modules():
    found, pending = {}, [nn.Module]
    while pending:
        owner = pending.pop()
        if owner in found:
            continue
        found[owner] = owner.__module__.startswith("torch.nn.")
        pending.extend(owner.__subclasses__())
    return [owner for owner, ours in found.items() if ours]
