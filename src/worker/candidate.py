"""The candidate process: untrusted code runs here, behind the sandbox.

It is also used for the baseline (with the problem's `Model` in place of `ModelNew`), so that both
sides of a measurement run the same code around their forward.

Everything that this file needs from torch is taken before candidate code is loaded. That is for
robustness against careless patches, not a defence: what leaves this process is believed by nobody.
"""

import functools
import hashlib
import inspect
import json
import os
import sys

import torch
from torch.utils import cpp_extension

import _kbv

import problem
import share
import tree

SOURCE_MAX = 16 << 20

_copy = torch.Tensor.copy_
_fill = torch.Tensor.fill_
_no_grad = torch.no_grad
_seed_generators = share.seed_generators
_leaves, _describe, _is_plain = share.leaves, tree.describe, tree.is_plain
_scalars = share.with_scalars_as_tensors
_send, _receive = _kbv.send, _kbv.receive
_synchronize = _kbv.synchronize
_page_next, _page_call = _kbv.page_next, _kbv.page_call
_page_copied, _page_failed = _kbv.page_copied, _kbv.page_failed
_guard_check, _guard_counts = _kbv.guard_check, _kbv.guard_counts
_snapshot_state, _restore_state = problem.snapshot_state, problem.restore_state
_exit = os._exit


class OutputError(Exception):
    """What forward returned is no plain tensor."""


class FormError(Exception):
    """What forward returned differs from the reference's output in structure or device."""


class Candidate:
    def __init__(self, request):
        self.channel = request.channel
        self.sets = {}
        self.output = self.expected_description = None
        self.live_at_start = 0
        # On the CPU device a parallel loop right before a call wakes OpenMP's threads: otherwise the
        # first milliseconds of a call depend on where the scheduler puts them.
        quiet = torch.zeros(1 << 18) if request.device == "cpu" else None
        self.rouse = None if quiet is None else functools.partial(_fill, quiet, 0.0)
        self.keeps_state = not request.flags & _kbv.JOB_COUNT_MEMORY
        self.model = self.snapshot = None
        self.state = None

    # ---- Requests; each returns (values, fds) -------------------------------------------------

    def load(self, values, fds):
        class_name, self.dtype, matmul = values
        source = _kbv.unblob(fds[0], SOURCE_MAX)
        with open("kernel.py", "wb") as file:
            file.write(source)
        _, extra = share.layout_from_blob(fds[1])
        self.class_name, self.init_inputs = class_name, extra["init_inputs"]
        share.set_matmul(matmul)
        _intercept_builds(self.channel)
        _forget_own_modules()
        self.module = problem.load_source("kernel.py", "kbv_candidate")
        problem.find_class(self.module, class_name)
        return ()

    def construct(self, values, fds):
        seed, mode = values
        self.model = self.snapshot = None
        context = (problem.perturbed_construction(seed) if mode == _kbv.MODEL_REINITIALISED
                   else _no_grad())
        with context:
            self.model = problem.construct(self.module, self.class_name, self.init_inputs, seed,
                                           share.device(), problem.DTYPES[self.dtype])
        self._snapshot()
        return ()

    def adopt(self, values, fds):
        if fds:
            layout, extra = share.layout_from_blob(fds[1])
            if self.state is not None:
                self.state[1].release()
            self.state = (extra["names"], share.Region.adopt(layout, fds[0], values[0], False))
        names, region = self.state
        with _no_grad():
            matched, reason = problem.copy_state(self.model, dict(zip(names, region.tensors)))
        self._snapshot()
        return int(matched), reason

    def _snapshot(self):
        # Where memory is counted the copies would be, too; two calls need no state put back.
        self.snapshot = _snapshot_state(self.model) if self.keeps_state else []

    def set(self, values, fds):
        index, total_bytes = values
        layout, _ = share.layout_from_blob(fds[1])
        if index in self.sets:
            self.sets.pop(index)
        region = share.Region.adopt(layout, fds[0], total_bytes, False)
        self.sets[index] = region
        return (region.address,)

    def set_output(self, values, fds):
        layout, extra = share.layout_from_blob(fds[1])
        self.output = share.Region.adopt(layout, fds[0], values[0], True)
        self.expected_description = extra["description"]
        return ()

    def matmul(self, values, fds):
        share.set_matmul(values[0])
        return ()

    def call(self, values, fds):
        index, seed = values
        self._before(seed)
        with _no_grad():
            result = self.model(*self.sets[index].value())
        _synchronize()
        description, copied = self._copy_out(result)
        del result
        damaged, size, offset = _guard_check()
        if _guard_counts(False)[3]:
            # torch does not look at what a pluggable allocator returns.
            raise MemoryError("the device had no memory for an allocation")
        return description[:2500], damaged, size, offset, int(copied)

    def timing(self, values, fds):
        (start,) = values
        sequence = start
        while True:
            sequence = (sequence + 1) & 0xffffff
            go, index, seed = _page_next(sequence)
            if go == _kbv.PAGE_GO_LEAVE:
                return (0,)
            try:
                self._before(seed)
                inputs = tuple(self.sets[index].value())
                self.live_at_start = _guard_counts(True)[0]
                with _no_grad():
                    result = _page_call(sequence, self.model, inputs, self.rouse)
                description, copied = self._copy_out(result)
                del result, inputs
                if not copied:
                    raise FormError(f"expected {self.expected_description}, got {description}")
                _synchronize()
            except BaseException:
                _page_failed(sequence)
                raise
            _page_copied(sequence)

    def memory(self, values, fds):
        live, peak, _, _ = _guard_counts(False)
        return self.live_at_start, live, peak

    # ---- Around one call ----------------------------------------------------------------------

    def _before(self, seed):
        _restore_state(self.model, self.snapshot)
        _seed_generators(seed)
        _synchronize()

    def _copy_out(self, result):
        """Copies the output to the shared region if it is of the expected form."""
        result = _scalars(result)
        tensors = _leaves(result)
        if not tensors:
            raise FormError(f"forward returned no tensor but {_describe(result)}")
        device = share.device()
        for number, tensor in enumerate(tensors):
            if not _is_plain(tensor):
                raise OutputError(f"output {number} is no plain tensor but "
                                  f"{type(tensor).__module__}.{type(tensor).__qualname__}")
        description = _describe(result)
        if description != self.expected_description:
            return description, False
        for number, (place, tensor) in enumerate(zip(self.output.tensors, tensors)):
            if tensor.device.type != device.type and tensor.dim() > 0:
                raise FormError(f"output {number} is on {tensor.device}, not on {device}")
            _copy(place, tensor)
        _synchronize()
        return description, True


def _forget_own_modules():
    """kbv's own modules have plain names (tree, problem): a candidate that imports a library of
    that name must get the library."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    for name, module in list(sys.modules.items()):
        if name != "__main__" and os.path.dirname(getattr(module, "__file__", None) or "") == here:
            del sys.modules[name]


def _intercept_builds(channel):
    """load_inline() and load() ask the judge for the product instead of compiling here."""
    originals = {name: getattr(cpp_extension, name) for name in ("load_inline", "load")}
    import_library = cpp_extension._import_module_from_library

    def intercept(function):
        original = originals[function]
        import inspect
        signature = inspect.signature(original)

        def replacement(*args, **kwargs):
            arguments = dict(signature.bind(*args, **kwargs).arguments)
            spec = _build_spec(function, arguments)
            if spec is None:
                return original(*args, **kwargs)  # compiles here, inside the sandbox
            fd = _kbv.blob(json.dumps(spec, sort_keys=True).encode())
            _send(channel, _kbv.MESSAGE_BUILD, (), (fd,))
            os.close(fd)
            message = _receive(channel)
            if message is None or message[0] != _kbv.MESSAGE_BUILT:
                raise RuntimeError("the judge sent no build")
            path, text = message[1]
            if not path:
                raise BuildError(text)
            name = os.path.basename(path)[:-len(".so")]
            return import_library(name, os.path.dirname(path),
                                  arguments.get("is_python_module", True))

        replacement.__name__ = function
        replacement.__doc__ = original.__doc__
        return replacement

    for name in originals:
        setattr(cpp_extension, name, intercept(name))


class BuildError(RuntimeError):
    """What torch raises as RuntimeError when an extension does not compile."""


def _build_spec(function, arguments):
    """The call as data, or None where it is no data (source trees, standalone programs)."""
    arguments = {key: value for key, value in arguments.items()
                 if value is not None and key not in ("build_directory", "verbose",
                                                      "keep_intermediates")}
    if arguments.get("is_standalone") or arguments.get("extra_include_paths"):
        return None
    files = {}
    if function == "load":
        sources = arguments.pop("sources", ())
        sources = [sources] if isinstance(sources, str) else list(sources)
        for path in sources:
            try:
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            except (OSError, UnicodeDecodeError):
                return None
            if '#include "' in text:
                return None  # may include a file beside it
            # Two sources may share a base name in different directories.
            stem = hashlib.sha256(path.encode()).hexdigest()[:8]
            files[f"{stem}_{os.path.basename(path)}"] = text
    try:
        arguments = json.loads(json.dumps(arguments))
    except (TypeError, ValueError):
        return None
    # The builder sees no device, and would build for none or for all.
    arch = ("{}.{}".format(*torch.cuda.get_device_capability(share.device()))
            if share.device().type == "cuda" else "")
    return {"function": function, "arguments": arguments, "files": files, "arch": arch}


def _report(channel, error):
    line = 0
    if _guard_counts(False)[3]:
        error = MemoryError("the device had no memory for an allocation")
    if isinstance(error, BuildError):
        kind, text = _kbv.FAIL_BUILD, str(error)
    elif isinstance(error, problem.ProblemError):
        kind, text, line = _kbv.FAIL_IMPORT, error.text, error.line or 0
        kind = getattr(_kbv, "FAIL_" + error.kind.upper(), kind)
        cause = error.__cause__
        if cause is not None and share.is_out_of_memory(cause):
            kind = _kbv.FAIL_OUT_OF_MEMORY
        elif isinstance(cause, BuildError):
            kind, text = _kbv.FAIL_BUILD, str(cause)
    elif isinstance(error, OutputError):
        kind, text = _kbv.FAIL_OUTPUT, str(error)
    elif isinstance(error, (FormError, tree.TreeError)):
        kind, text = _kbv.FAIL_FORM, str(error)
    elif share.is_out_of_memory(error):
        kind, text = _kbv.FAIL_OUT_OF_MEMORY, share.last_line(error)
    else:
        kind, text = _kbv.FAIL_RAISED, share.last_line(error)
    _send(channel, _kbv.MESSAGE_FAIL, (kind, line, text))


def serve(request):
    candidate = Candidate(request)
    handlers = {
        _kbv.MESSAGE_LOAD: candidate.load, _kbv.MESSAGE_CONSTRUCT: candidate.construct,
        _kbv.MESSAGE_ADOPT: candidate.adopt, _kbv.MESSAGE_SET: candidate.set,
        _kbv.MESSAGE_OUTPUT: candidate.set_output, _kbv.MESSAGE_CALL: candidate.call,
        _kbv.MESSAGE_TIMING: candidate.timing, _kbv.MESSAGE_MEMORY: candidate.memory,
        _kbv.MESSAGE_MATMUL: candidate.matmul,
    }
    while (message := _receive(request.channel)) is not None:
        kind, values, fds = message
        try:
            values = handlers[kind](values, fds)
        except SystemExit as error:
            # Asked to end: it does, and the judge sees a process that died by itself.
            _exit(error.code if isinstance(error.code, int) else 1)
        except BaseException as error:
            _report(request.channel, error)
        else:
            _send(request.channel, _kbv.MESSAGE_OK, values)
    return 0
