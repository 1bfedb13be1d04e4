"""Tensors over memory that two processes share.

A *layout* says where each tensor of a nested value lies in a region. It travels as a pickled
blob from the reference process, which is trusted, to the others: never the other way.
"""

import io
import pickle

import torch
from torch.utils import dlpack

import _kbv
import tree

ALIGN = 512  # as cudaMalloc and torch's allocators align
ZONE = 4096  # bytes of guard before and after each output tensor
BLOB_MAX = 64 << 20

_DTYPE_NAMES = {
    torch.float64: "float64", torch.float32: "float32", torch.float16: "float16",
    torch.bfloat16: "bfloat16", torch.int64: "int64", torch.int32: "int32", torch.int16: "int16",
    torch.int8: "int8", torch.uint8: "uint8", torch.bool: "bool",
}


def dtype_name(dtype):
    """The name by which _kbv.compare knows a dtype, or None."""
    return _DTYPE_NAMES.get(dtype)


def with_scalars_as_tensors(value):
    """Python numbers in an output become 0-d tensors, so that one comparison serves all."""
    if isinstance(value, bool):
        return torch.tensor(value)
    if isinstance(value, int):
        return torch.tensor(value, dtype=torch.int64)
    if isinstance(value, float):
        return torch.tensor(value, dtype=torch.float64)
    if type(value) in (list, tuple):
        return type(value)(with_scalars_as_tensors(item) for item in value)
    if type(value) is dict:
        return {key: with_scalars_as_tensors(item) for key, item in value.items()}
    return value


def _span(tensor):
    """Bytes from the first to the last element, in the tensor's own strides."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()


def _overlaps(tensor):
    """Whether two elements may share memory (expanded tensors): such strides cannot be kept."""
    dims = sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1)
    reach = 0
    for stride, size in dims:
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def leaves(value):
    """The tensors of an output in order, one that occurs twice as often as it occurs: a candidate
    may return the same tensor where the reference returns two equal ones, and the reverse."""
    tensors, skeleton = tree.flatten(value)
    return [tensors[node[1]] for node in skeleton if node[0] in ("tensor", "foreign")]


class Layout:
    """Places of tensors in a region; `skeleton` rebuilds the nested value around them."""

    def __init__(self, skeleton, tensors, zone=0, keep_strides=True):
        self.skeleton = skeleton
        self.zone = zone
        self.entries = []  # (offset, bytes, dtype, shape, stride)
        offset = zone
        for tensor in tensors:
            strided = keep_strides and not _overlaps(tensor)
            stride = tuple(tensor.stride()) if strided else _contiguous_strides(tensor.shape)
            length = _span(tensor) if strided else tensor.numel() * tensor.element_size()
            self.entries.append((offset, length, tensor.dtype, tuple(tensor.shape), stride))
            offset = _round_up(offset + length + zone, ALIGN)
        self.total_bytes = max(offset, ALIGN)

    def same_places(self, other):
        return other is not None and self.entries == other.entries

    def views(self, address):
        return [_view(address + offset, length, dtype, shape, stride)
                for offset, length, dtype, shape, stride in self.entries]

    def zones(self):
        """(offset, bytes) of everything in the region that no tensor covers."""
        position = 0
        for offset, length, *_ in self.entries:
            if offset > position:
                yield position, offset - position
            position = offset + length
        if self.total_bytes > position:
            yield position, self.total_bytes - position

    def to_blob(self, **extra):
        return _kbv.blob(pickle.dumps((self, extra)))


class _Unpickler(pickle.Unpickler):
    """Finds Layout here, whatever stands in sys.modules under this module's name: a candidate may
    import a library that is called the same."""

    def find_class(self, module, name):
        return Layout if (module, name) == (Layout.__module__, "Layout") else super().find_class(
            module, name)


def layout_from_blob(fd):
    """(layout, extra) that the reference process sent."""
    return _Unpickler(io.BytesIO(_kbv.unblob(fd, BLOB_MAX))).load()


def _round_up(value, to):
    return (value + to - 1) // to * to


def _contiguous_strides(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _view(address, length, dtype, shape, stride):
    if length == 0:
        return torch.empty(shape, dtype=dtype, device=device())
    flat = dlpack.from_dlpack(_kbv.dlpack(address, length))
    return flat.view(dtype).as_strided(shape, stride)


_device = None


def open_device(spec):
    """Opens the one device of this process; returns its facts. `spec` is "cpu" or "cuda:N"."""
    global _device
    _device = torch.device(spec)
    if _device.type == "cuda":
        torch.cuda.set_device(_device)
        torch.cuda.init()
        torch.zeros(1, device=_device)  # the primary context exists from here on
    return _kbv.device_open(spec)


def device():
    return _device


class Region:
    """Shared memory with a layout: the sets, the output, the parameters."""

    def __init__(self, layout, handle, address):
        self.layout, self.handle, self.address = layout, handle, address
        self.tensors = layout.views(address)

    @classmethod
    def create(cls, layout):
        return cls(layout, *_kbv.region_new(layout.total_bytes))

    @classmethod
    def adopt(cls, layout, fd, total_bytes, writable):
        return cls(layout, *_kbv.region_import(fd, total_bytes, writable))

    def store(self, tensors):
        for place, tensor in zip(self.tensors, tensors):
            place.copy_(tensor)

    def value(self):
        return tree.rebuild(self.layout.skeleton, self.tensors)

    def release(self):
        self.tensors = None
        _kbv.region_free(self.handle)


def set_matmul(precision):
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = True


def seed_generators(seed):
    """The same state of torch's generators on both sides before a call."""
    torch.default_generator.manual_seed(seed)
    if _device.type == "cuda":
        torch.cuda.default_generators[_device.index or 0].manual_seed(seed)


def is_out_of_memory(error):
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "out of memory" in text or "std::bad_alloc" in text)


def last_line(error):
    """One line: "ValueError: what it said"."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except BaseException:  # a hostile __str__
        lines = ["(its text cannot be had)"]
    # Of a long text the first line and the last: torch says what is wrong in the first and gives
    # hints after it, compilers show the source first and say what is wrong in the last.
    if len(lines) > 1:
        lines = [f"{lines[0]} ... {lines[-1]}"]
    return ": ".join([type(error).__name__, *lines])
