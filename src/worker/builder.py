"""The builder: compiles what a candidate asked for, as data, in a sandbox without a device.

The specification is JSON: which function of torch.utils.cpp_extension was called, with which
arguments, and the text of the source files that it named. The product is one shared library in
the job's scratch directory; nothing of it is loaded here.
"""

import json
import os

import _kbv

SPEC_MAX = 16 << 20


def serve(request):
    while (message := _kbv.receive(request.channel)) is not None:
        kind, values, fds = message
        if kind != _kbv.MESSAGE_COMPILE:
            raise RuntimeError(f"unexpected message {kind}")
        spec = json.loads(_kbv.unblob(fds[0], SPEC_MAX))
        try:
            name = _compile(spec, os.getcwd())
        except BaseException as error:
            print(error, flush=True)  # the log: its end goes into the report
            _kbv.send(request.channel, _kbv.MESSAGE_FAIL, (_kbv.FAIL_BUILD, 0, _explain(error)))
        else:
            _kbv.send(request.channel, _kbv.MESSAGE_OK, (name,))
    return 0


def _explain(error):
    """The compiler's first complaint where there is one, else the exception's."""
    lines = str(error).splitlines()
    for line in lines:
        if " error:" in line or "error :" in line or ": fatal error" in line or " error: " in line:
            return line.strip()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _compile(spec, directory):
    from torch.utils import cpp_extension

    # Only the file is wanted: loading it would run its constructors.
    cpp_extension._import_module_from_library = lambda *args, **kwargs: None
    if spec["arch"]:
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", spec["arch"])
    build = os.path.join(directory, "build")
    os.makedirs(build, exist_ok=True)
    # Not verbose: then the exception holds what the compiler said.
    arguments = dict(spec["arguments"], build_directory=build, verbose=False)
    for key, text in spec["files"].items():
        with open(os.path.join(directory, key), "w", encoding="utf-8") as file:
            file.write(text)
    if spec["function"] == "load":
        arguments["sources"] = [os.path.join(directory, key) for key in spec["files"]]
    getattr(cpp_extension, spec["function"])(**arguments)
    products = [name for name in os.listdir(build) if name.endswith(".so")]
    if len(products) != 1:
        raise RuntimeError("the build made no library")
    return os.path.join("build", products[0])
