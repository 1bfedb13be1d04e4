"""Nested values: what models take and return, taken apart and put together again.

A value is a tensor (of any kind: is_plain says which ones a kernel may use), a scalar (None, bool,
int, float, complex, str, bytes), a torch.Size, or a list, tuple, named tuple or dict of values.
`flatten` separates the tensors from the rest, the skeleton; `rebuild` is its inverse.

    tensors, skeleton = flatten(value)
    same = rebuild(skeleton, tensors)

A skeleton is a flat tuple of nodes in preorder, and a node is a tuple of builtin values whose
first one says what it is. So it can be pickled, but need not be: `encode` and `decode` carry it as
JSON, which is the way for a skeleton that comes from a candidate, because unpickling runs code.
Nothing here recurses, and everything has a limit: a value made to exhaust the worker is a
TreeError, never a crash.
"""

import collections
import json
import keyword

import torch

DEPTH_MAX = 32      # containers inside each other
LEAVES_MAX = 4096   # tensors and scalars
NODES_MAX = 16384   # leaves and containers
TEXT_MAX = 65536    # characters of one string; bytes of one bytes object; bits of an int
NAMES_MAX = 256     # characters of a name of a named tuple or a field
ENCODED_MAX = 8 << 20


class TreeError(ValueError):
    """A value that has no skeleton, or a skeleton that is none."""


# Descriptors taken before any candidate code is loaded, so that patching torch.Tensor later does
# not change what is seen of a tensor.
_get_layout = torch.Tensor.layout.__get__
_get_dtype = torch.Tensor.dtype.__get__
_get_device = torch.Tensor.device.__get__
_get_shape = torch.Tensor.shape.__get__
_get_is_quantized = torch.Tensor.is_quantized.__get__
_is_conj = torch.Tensor.is_conj
_is_neg = torch.Tensor.is_neg
_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
_Size = torch.Size
_strided = torch.strided
_is_functorch_wrapped = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", None)

_DTYPE_NAMES = {
    value: name
    for name, value in sorted(vars(torch).items(), reverse=True)
    if isinstance(value, torch.dtype)
}
# torch has several names for some types ("half", "float16"); the sized one is canonical.
_DTYPE_NAMES.update({
    getattr(torch, name): name
    for name in ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
                 "uint8", "bool", "complex32", "complex64", "complex128")
})

_SCALARS = (bool, int, float, complex, str, bytes)
_KEYS = (bool, int, float, str, type(None))
_TENSORS = ("tensor", "foreign")
_CONTAINERS = ("list", "tuple", "namedtuple", "dict")


def is_plain(tensor):
    """True for what a kernel may take or return: exactly torch.Tensor or nn.Parameter, dense
    strided memory on a device; no subclass (their operators run code of their own), nothing
    sparse, quantised, meta, nested, lazily conjugated or negated, no functorch wrapper."""
    if type(tensor) is not _Tensor and type(tensor) is not _Parameter:
        return False
    if _get_layout(tensor) is not _strided or _get_is_quantized(tensor):
        return False
    if _get_device(tensor).type == "meta":
        return False
    if _is_functorch_wrapped is not None and _is_functorch_wrapped(tensor):
        return False
    return not (_is_conj(tensor) or _is_neg(tensor))


def dtype_name(dtype):
    """Canonical name of a torch.dtype: "float32"."""
    return _DTYPE_NAMES[dtype]


def flatten(value):
    """(tensors, skeleton) of a value. A tensor that occurs twice (the same object) stands once in
    `tensors`. Raises TreeError for other types, hostile sizes and cycles (by their depth)."""
    tensors, slots, nodes = [], {}, []
    leaves = 0
    pending = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        node, children = _node(item)
        if node is None:
            slot = slots.get(id(item))
            if slot is None:
                slot = slots[id(item)] = len(tensors)
                tensors.append(item)
            node = _tensor_node(item, slot)
        if node[0] not in _CONTAINERS:
            leaves += 1
            if leaves > LEAVES_MAX:
                raise TreeError(f"more than {LEAVES_MAX} leaves")
        elif depth >= DEPTH_MAX:
            raise TreeError(f"nested deeper than {DEPTH_MAX}")
        nodes.append(node)
        if len(nodes) + len(pending) + len(children) > NODES_MAX:
            raise TreeError(f"more than {NODES_MAX} nodes")
        pending.extend((child, depth + 1) for child in reversed(children))
    return tensors, tuple(nodes)


def rebuild(skeleton, tensors):
    """The value with that skeleton and those tensors, which may have other dtypes, devices and
    shapes than the skeleton says. Shared tensors are shared again. A named tuple gets a class of
    the same name and fields. Raises TreeError for a malformed skeleton."""
    check(skeleton)
    for node in skeleton:
        if node[0] in _TENSORS and node[1] >= len(tensors):
            raise TreeError(f"tensor {node[1]} of {len(tensors)}")

    # From the end: every container then finds its finished children on top of the stack.
    done = []
    for node in reversed(skeleton):
        kind = node[0]
        if kind in _TENSORS:
            done.append(tensors[node[1]])
        elif kind == "none":
            done.append(None)
        elif kind == "size":
            done.append(torch.Size(node[1]))
        elif kind == "scalar":
            done.append(node[1])
        else:
            children = [done.pop() for _ in range(_child_count(node))]
            done.append(_container(node, children))
    return done[0]


def describe(value):
    """Canonical one-line descriptor of structure, dtypes and shapes:
    `tuple(float32[16, 32], int64[])`, `dict(a: float32[2], b: list(int64[3]))`; scalars by type,
    tensors that are not plain by what they are.
    Two values have the same structure when their descriptors are equal. A named tuple and what
    torch.max() returns are described as tuples: callers can use either as the other."""
    return describe_skeleton(flatten(value)[1])


def describe_skeleton(skeleton):
    """The descriptor of the value that `skeleton` was taken from."""
    check(skeleton)
    done = []
    for node in reversed(skeleton):
        kind = node[0]
        if kind == "tensor":
            done.append(f"{node[2]}[{', '.join(map(str, node[3]))}]")
        elif kind == "foreign":
            done.append(node[2])
        elif kind == "none":
            done.append("None")
        elif kind == "size":
            done.append("size")
        elif kind == "scalar":
            done.append(type(node[1]).__name__)
        else:
            children = [done.pop() for _ in range(_child_count(node))]
            if kind == "dict":
                children = [f"{_key_text(key)}: {text}" for key, text in zip(node[1], children)]
            name = "tuple" if kind == "namedtuple" else kind
            done.append(f"{name}({', '.join(children)})")
    return done[0]


def scalars(value):
    """Every Python scalar of a value, None included, in flatten's order; a torch.Size counts as
    one scalar and comes as a tuple of ints. Together with equal descriptors this is what is left
    to compare beside the tensors."""
    found = []
    for node in flatten(value)[1]:
        if node[0] == "scalar":
            found.append(node[1])
        elif node[0] == "none":
            found.append(None)
        elif node[0] == "size":
            found.append(tuple(node[1]))
    return found


def encode(skeleton):
    """A skeleton as JSON (bytes), for a reader that does not trust the writer."""
    check(skeleton)
    return json.dumps([_encode_node(node) for node in skeleton]).encode()


def decode(data):
    """The skeleton in `data`, checked throughout. Raises TreeError."""
    if len(data) > ENCODED_MAX:
        raise TreeError(f"skeleton of {len(data)} bytes")
    try:
        listed = json.loads(bytes(data).decode())
        skeleton = tuple(_decode_node(node) for node in listed)
    except TreeError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise TreeError(f"malformed skeleton: {type(error).__name__}") from None
    check(skeleton)
    return skeleton


def check(skeleton):
    """Raises TreeError unless `skeleton` is what flatten() could have made."""
    if type(skeleton) is not tuple or not 0 < len(skeleton) <= NODES_MAX:
        raise TreeError("malformed skeleton: no tuple of nodes")
    leaves = slot_count = 0
    open_counts = []  # children still to come, of each container that is open
    for index, node in enumerate(skeleton):
        if index and not open_counts:
            raise TreeError("malformed skeleton: nodes after the end")
        problem = _node_problem(node)
        if problem:
            raise TreeError(f"malformed skeleton: {problem}")
        if open_counts:
            open_counts[-1] -= 1
        if node[0] in _TENSORS:
            if node[1] > slot_count:
                raise TreeError("malformed skeleton: tensors out of order")
            slot_count = max(slot_count, node[1] + 1)
        if node[0] in _CONTAINERS:
            if len(open_counts) >= DEPTH_MAX:
                raise TreeError(f"nested deeper than {DEPTH_MAX}")
            open_counts.append(_child_count(node))
        else:
            leaves += 1
        while open_counts and open_counts[-1] == 0:
            open_counts.pop()
    if open_counts:
        raise TreeError("malformed skeleton: nodes are missing")
    if leaves > LEAVES_MAX:
        raise TreeError(f"more than {LEAVES_MAX} leaves")


def _node(item):
    """(node, children) of one value; (None, ()) for a tensor, whose slot flatten() knows."""
    kind = type(item)
    if issubclass(kind, _Tensor):
        return None, ()
    if item is None:
        return ("none",), ()
    if _is_one_of(kind, _SCALARS):
        if (kind is str or kind is bytes) and len(item) > TEXT_MAX:
            raise TreeError(f"a {kind.__name__} of {len(item)}")
        if kind is int and item.bit_length() > TEXT_MAX:
            raise TreeError("an int of more digits than any result has")
        return ("scalar", item), ()
    if kind is _Size:
        return ("size", tuple(item)), ()
    if kind is list or kind is tuple:
        _check_length(len(item))
        return (kind.__name__, len(item)), tuple(item)
    if kind is dict or kind is collections.OrderedDict:
        _check_length(len(item))
        keys = tuple(item.keys())
        for key in keys:
            if not _is_one_of(type(key), _KEYS):
                raise TreeError(f"a dict key of type {type(key).__name__}")
            if type(key) is str and len(key) > TEXT_MAX:
                raise TreeError("a dict key that long")
        return ("dict", keys), tuple(item.values())
    if issubclass(kind, tuple):
        return _named_tuple_node(item, kind)
    raise TreeError(f"a value of type {kind.__name__}")


def _tensor_node(tensor, slot):
    if is_plain(tensor):
        return ("tensor", slot, dtype_name(_get_dtype(tensor)), tuple(_get_shape(tensor)))
    # Little is asked of it: a subclass answers with code of its own.
    kind = type(tensor)
    if kind is not _Tensor and kind is not _Parameter:
        what = f"tensor subclass {kind.__name__}"
    elif _get_layout(tensor) is not _strided:
        what = f"{str(_get_layout(tensor)).replace('torch.', '')} tensor"
    else:
        what = "tensor that is quantised, meta, lazy or wrapped"
    return ("foreign", slot, what[:NAMES_MAX])


def _named_tuple_node(item, kind):
    length = tuple.__len__(item)
    _check_length(length)
    children = tuple(tuple.__iter__(item))
    if kind.__module__ == "torch.return_types":  # torch.max() and its like: no _fields
        return ("tuple", length), children
    fields = getattr(kind, "_fields", None)
    node = ("namedtuple", kind.__name__, fields)
    if _node_problem(node) or len(fields) != length:
        raise TreeError(f"a tuple of type {kind.__name__}")
    return node, children


def _check_length(length):
    # Before anything is copied: a list of 10^9 times the same object costs nothing to make.
    if length > NODES_MAX:
        raise TreeError(f"a container of {length} elements")


def _child_count(node):
    if node[0] == "namedtuple":
        return len(node[2])
    return len(node[1]) if node[0] == "dict" else node[1]


def _container(node, children):
    if node[0] == "list":
        return children
    if node[0] == "tuple":
        return tuple(children)
    if node[0] == "dict":
        return dict(zip(node[1], children))
    return collections.namedtuple(node[1], node[2])(*children)


def _key_text(key):
    return key if type(key) is str and key.isidentifier() else repr(key)


def _is_one_of(kind, kinds):
    # Not `in`: that calls == of a metaclass, which may say yes to everything.
    return any(kind is known for known in kinds)


def _is_count(value):
    return type(value) is int and 0 <= value <= NODES_MAX


def _is_dims(value):
    return type(value) is tuple and len(value) <= 64 and all(
        type(dim) is int and 0 <= dim < 1 << 63 for dim in value)


def _is_name(value):
    return (type(value) is str and 0 < len(value) <= NAMES_MAX and value.isidentifier()
            and not keyword.iskeyword(value) and not value.startswith("_"))


def _node_problem(node):
    """What is wrong with one node, or None."""
    if type(node) is not tuple or not node or type(node[0]) is not str:
        return "no node"
    kind, rest = node[0], node[1:]
    if kind == "none":
        good = not rest
    elif kind == "scalar":
        good = len(rest) == 1 and _is_one_of(type(rest[0]), _SCALARS)
    elif kind == "size":
        good = len(rest) == 1 and _is_dims(rest[0])
    elif kind == "tensor":
        good = (len(rest) == 3 and _is_count(rest[0]) and type(rest[1]) is str
                and rest[1] in _DTYPE_NAMES.values() and _is_dims(rest[2]))
    elif kind == "foreign":
        good = (len(rest) == 2 and _is_count(rest[0]) and type(rest[1]) is str
                and len(rest[1]) <= NAMES_MAX)
    elif kind in ("list", "tuple"):
        good = len(rest) == 1 and _is_count(rest[0])
    elif kind == "dict":
        good = (len(rest) == 1 and type(rest[0]) is tuple and len(rest[0]) <= NODES_MAX
                and all(_is_one_of(type(key), _KEYS) for key in rest[0])
                and len(set(rest[0])) == len(rest[0]))
    elif kind == "namedtuple":
        # A leading underscore is refused by collections.namedtuple too.
        good = (len(rest) == 2 and type(rest[0]) is str and rest[0].isidentifier()
                and not keyword.iskeyword(rest[0]) and len(rest[0]) <= NAMES_MAX
                and type(rest[1]) is tuple and len(rest[1]) <= NODES_MAX
                and all(_is_name(field) for field in rest[1])
                and len(set(rest[1])) == len(rest[1]))
    else:
        return "an unknown node"
    return None if good else f"a {kind} node"


# JSON has no complex, bytes or tuple, and floats must keep NaN and infinity: each scalar travels
# as [type, text or value].


def _encode_scalar(value):
    if type(value) is float:
        return ["float", value.hex()]
    if type(value) is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    if type(value) is bytes:
        return ["bytes", value.hex()]
    if type(value) is int:
        return ["int", hex(value)]  # decimal conversion is quadratic and limited
    if value is None:
        return ["none"]
    return [type(value).__name__, value]


def _decode_scalar(coded):
    kind, *rest = coded
    if kind == "float":
        return float.fromhex(rest[0])
    if kind == "complex":
        return complex(float.fromhex(rest[0]), float.fromhex(rest[1]))
    if kind == "bytes":
        return bytes.fromhex(rest[0])
    if kind == "int":
        return int(rest[0], 16)
    if kind == "none":
        return None
    if (kind, type(rest[0])) in (("bool", bool), ("str", str)):
        return rest[0]
    raise TreeError("malformed skeleton: a scalar")


def _encode_node(node):
    if node[0] == "scalar":
        return ["scalar", _encode_scalar(node[1])]
    if node[0] == "dict":
        return ["dict", [_encode_scalar(key) for key in node[1]]]
    return list(node)


def _decode_node(coded):
    if type(coded) is not list:
        raise TreeError("malformed skeleton: no node")
    if coded[0] == "scalar":
        kind, value = coded
        return (kind, _decode_scalar(value))
    if coded[0] == "dict":
        kind, keys = coded
        return (kind, tuple(_decode_scalar(key) for key in keys))
    return tuple(tuple(part) if type(part) is list else part for part in coded)
