"""The reference process: trusted, holds everything that a candidate must not see.

It loads the problem, draws inputs into shared memory, runs oracle and baseline on them, keeps what
is expected, compares what came back, and watches the guard zones. It never loads candidate code.
"""

import copy
import errno
import os
import random
import secrets
import time

import torch

import _kbv
import dependence
import families
import problem
import share
import tree

ORACLE_SECONDS_MAX = 10.0
SOURCE_MAX = 16 << 20
ROOM_BYTES = 1 << 30       # of the device that torch's allocator may keep during a candidate's call
PATCHES, PATCH_MIN = 16, 4096  # elements that publish() changes, in tensors of at least so many


class NotApplicable(Exception):
    """This family says nothing about this problem; the text is the reason."""


class Unfit(Exception):
    """The problem's own code failed; the text says how."""


class Reference:
    def __init__(self, request, facts):
        self.channel = request.channel
        self.regions = {}          # set index -> Region
        self.hashes = {}           # set index -> hash of what was drawn
        self.pending = None        # drawn, and not yet where a candidate can see it
        self.patches = {}          # set index -> what publish() overwrote at the last moment
        self.output = None
        self.state_region = None
        self.model = self.oracle_model = None
        self.oracle_note = "float64"
        self.oracle_is_double = True
        self.live_random = None
        self.domain = None
        self.matmul_matters = None # whether "highest" gives other bits than the baseline's flag
        self.inherent_nonfinite = False
        self.expected = None       # oracle's tensors, contiguous
        self.baseline_errors = None
        self.pattern = secrets.randbits(64) | 0xfff0000000000000  # a NaN, and never the same twice
        self.key = secrets.randbits(64)

    # ---- Requests -----------------------------------------------------------------------------

    def load(self, values, fds):
        self.dtype_name, self.matmul_precision = values
        self.dtype = problem.DTYPES[self.dtype_name]
        with open("problem.py", "wb") as file:
            file.write(_kbv.unblob(fds[0], SOURCE_MAX))
        self.module = problem.load_source("problem.py", "kbv_problem")
        problem.find_class(self.module, "Model")
        problem.find_get_inputs(self.module)
        self.init_inputs = problem.init_inputs(self.module, 0)
        share.set_matmul(self.matmul_precision)
        layout = share.Layout(None, [])
        return (), [layout.to_blob(init_inputs=self.init_inputs)]

    def construct(self, values, fds):
        seed, mode = values
        if mode == _kbv.MODEL_PERTURBED:
            problem.perturb(self.model, seed)
        else:
            self.model = self.oracle_model = None
            context = (problem.perturbed_construction(seed) if mode == _kbv.MODEL_REINITIALISED
                       else torch.no_grad())
            with context:
                self.model = problem.construct(self.module, "Model", self.init_inputs, seed,
                                               share.device(), self.dtype)
        self.oracle_model = None
        self.snapshot = problem.snapshot_state(self.model)
        return (), []

    def state(self, values, fds):
        named = problem.named_state(self.model)
        tensors = [tensor.detach() for tensor in named.values()]
        layout = share.Layout(None, tensors)
        fresh = not (self.state_region and layout.same_places(self.state_region.layout))
        if fresh:
            self.state_region = share.Region.create(layout)
        self.state_region.store(tensors)
        _kbv.synchronize()
        if not fresh:
            return (0,), []
        return (layout.total_bytes,), [_kbv.region_export(self.state_region.handle, False),
                                       layout.to_blob(names=list(named))]

    def draw(self, values, fds):
        index, family, seed, call_seed, judged = values
        if not judged:
            self.pending = problem.draw_inputs(self.module, seed, share.device(), self.dtype)
            if index in self.regions:
                return (1, "", "", 0, 0), []
            fresh_bytes = self._place(index, self.pending)
            return (1, "", "", 0, fresh_bytes), self.fresh_fds
        fresh_bytes, self.fresh_fds = 0, []
        self.expected = self.baseline_outputs = None  # large: before the next ones are made
        try:
            if family in families.PARAMETER_FAMILIES and not problem.named_state(self.model):
                raise NotApplicable("the model has no parameters")
            fresh_bytes = self._draw_family(index, family, seed)
            try:
                self._expect(index, call_seed)
            except Unfit as error:
                # Right as declared, and not made for this: a loss that wants probabilities, say.
                if family == "D1":
                    raise
                raise NotApplicable(str(error)) from None
            if family == "D1" and self.live_random is None:
                self._look_for_live_random(index, call_seed)
            if not self.matmul_matters:
                self._look_at_matmul(index, call_seed)
            self._check_finite(family)
            if family == "E5" and any(not tensor.dtype.is_floating_point
                                      for tensor in self.baseline_outputs):
                raise NotApplicable("ties in an integer output may be broken either way")
            controls = self._run_controls(index)
        except (NotApplicable, families.NotApplicable) as reason:
            return (0, str(reason), "", 0, fresh_bytes), self.fresh_fds
        self._leave_room()
        return (1, "", self.description[:2500], controls, fresh_bytes), self.fresh_fds

    def expect(self, values, fds):
        """Oracle and baseline on what a timed call was given. 1: done; 0: this draw says nothing,
        and why; 2: the inputs are no longer what was drawn."""
        index, call_seed = values
        self.expected = self.baseline_outputs = None
        if not self._inputs_intact(index):
            return (2, ""), []
        try:
            self._expect(index, call_seed)
            self._check_finite("D1")
        except (NotApplicable, Unfit) as reason:
            return (0, str(reason)), []
        return (1, ""), []

    def publish(self, values, fds):
        """Shows a candidate that is ready what was drawn: stores it, evicts the caches, and last
        of all overwrites a few elements at secret places, so that work which began on a glimpse
        of the inputs ends in a wrong result."""
        (index,) = values
        region, pending = self.regions[index], self.pending
        self.pending = None
        if pending is not None:
            self._store(index, pending)
        _kbv.flush()
        self.patches[index] = self._patch(region) if pending is not None else []
        _kbv.synchronize()
        return (), []

    def output_hash(self, values, fds):
        """Of the output as it is now; before anything else is done with it."""
        return (self._output_hash(),), []

    def device_memory(self, values, fds):
        free, _ = _kbv.memory()
        return (free,), []

    def needed(self, values, fds):
        """A lower bound of the input bytes that the output depends on."""
        index, seed = values
        tensors = self.regions[index].tensors

        def run():
            problem.restore_state(self.model, self.snapshot)
            return self._outputs(self.model, self._inputs(index), seed)

        try:
            return (dependence.needed_bytes(tensors, run, random.Random(secrets.randbits(64))),), []
        except (Unfit, MemoryError, torch.OutOfMemoryError):
            return (0,), []  # it raises on other inputs, or has no room: nothing can be told

    def output_new(self, values, fds):
        layout = share.Layout(None, self.baseline_outputs, zone=share.ZONE, keep_strides=False)
        self.output = share.Region.create(layout)
        self.poison((), ())
        return (layout.total_bytes,), [_kbv.region_export(self.output.handle, True),
                                       layout.to_blob(description=self.description)]

    def poison(self, values, fds):
        self.pattern = self.pattern ^ (secrets.randbits(51) << 1)
        _kbv.fill(self.output.address, self.pattern, self.output.layout.total_bytes)
        return (), []

    def compare(self, values, fds):
        """status of zones and inputs, then the output tensor that is furthest over its budget."""
        (index,) = values
        _kbv.synchronize()
        damaged, where = 0, 0
        for offset, length in self.output.layout.zones():
            different, first = _kbv.check_fill(self.output.address + offset, self.pattern, length)
            if different and not damaged:
                where = offset + first
            damaged += different
        inputs_intact = int(self._inputs_intact(index))
        low = self._output_hash()
        if [tuple(t.shape) for t in self.expected] != [e[3] for e in self.output.layout.entries]:
            raise Unfit("the shape of the reference's output changes from draw to draw")
        worst = None
        for number, (expected, entry) in enumerate(zip(self.expected, self.output.layout.entries)):
            error = self.baseline_errors[number]
            result = _kbv.compare(expected.data_ptr(), share.dtype_name(expected.dtype),
                                  self.output.address + entry[0], share.dtype_name(entry[2]),
                                  expected.numel(), error["s"], error["n"], self.tf32())
            if worst is None or result["excess"] > worst[1]["excess"]:
                worst = (number, result, entry, error)
        number, result, entry, error = worst
        _, _, dtype, shape, _ = entry
        return (damaged, where, inputs_intact, low, number, share.dtype_name(dtype),
                "x".join(map(str, shape)), error["s"], error["n"],
                result["s"], result["n"], result["sigma"], result["worst_index"],
                result["worst_expected"], result["worst_got"], result["nonfinite_expected"],
                result["nonfinite_got"], result["mask_mismatches"], result["first_mask_mismatch"],
                result["mask_expected"], result["mask_got"], result["mismatch_count"],
                result["first_mismatch"], int(self.tf32())), []

    def settle(self, values, fds):
        """Before timing: gives memory back that only correctness needed."""
        self.expected = self.baseline_outputs = self.oracle_model = None
        if share.device().type == "cuda":
            torch.cuda.empty_cache()
        return (), []

    def _output_hash(self):
        low = 0
        for offset, length, *_ in self.output.layout.entries:  # not the zones: their poison changes
            low = (low * 31 + _kbv.hash(self.output.address + offset, length, self.key)[0]) >> 1
        return low & ((1 << 62) - 1)

    def _leave_room(self):
        """Before a candidate's call: what only the controls needed, and what torch's allocator
        keeps for itself, is the candidate's to use."""
        # Their places are still asked for, see output_new().
        self.baseline_outputs = [tensor.to("meta") for tensor in self.baseline_outputs]
        if share.device().type == "cuda":
            kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
            if kept > ROOM_BYTES:
                torch.cuda.empty_cache()

    # ---- Drawing ------------------------------------------------------------------------------

    def _family_inputs(self, family, seed):
        inputs = problem.draw_inputs(self.module, seed, share.device(), self.dtype)
        if self.domain is None:
            self.domain = families.detect_domain([inputs])
        return families.apply(family, inputs, seed, self.domain)

    def _draw_family(self, index, family, seed):
        return self._place(index, self._family_inputs(family, seed))

    def _place(self, index, inputs):
        """Puts the values into the set's region; returns its size where it is a new one."""
        tensors, skeleton = tree.flatten(inputs)
        layout = share.Layout(skeleton, tensors)
        region = self.regions.get(index)
        fresh = region is None or not layout.same_places(region.layout)
        self.fresh_fds = []
        if fresh:
            region = self.regions[index] = share.Region.create(layout)
        self._store(index, inputs)
        if not fresh:
            return 0
        self.fresh_fds = [_kbv.region_export(region.handle, False), layout.to_blob()]
        return layout.total_bytes

    def _store(self, index, inputs):
        tensors, skeleton = tree.flatten(inputs)
        region = self.regions[index]
        if not share.Layout(skeleton, tensors).same_places(region.layout):
            raise Unfit("the shapes of the inputs change from draw to draw")
        region.layout.skeleton = skeleton
        region.store(tensors)
        _kbv.synchronize()
        self.patches[index] = []
        self.hashes[index] = self._hash(index)

    def _patch(self, region):
        """[(tensor, places, what stood there, what stands there now)]"""
        patches = []
        for tensor, domain in zip(region.tensors, self.domain or ()):
            if domain.kind not in ("any", "positive") or not tensor.is_contiguous():
                continue
            flat = tensor.view(-1)
            if flat.numel() < PATCH_MIN or not tensor.dtype.is_floating_point:
                continue
            # Elements of the same draw change places: they stay in the problem's domain.
            places = torch.tensor([secrets.randbelow(flat.numel()) for _ in range(2 * PATCHES)],
                                  device=flat.device).unique()
            before = flat[places].clone()
            after = before.roll(1)
            flat[places] = after
            patches.append((flat, places, before, after))
        return patches

    def _inputs_intact(self, index):
        for flat, places, before, after in self.patches.get(index, ()):
            if not torch.equal(flat[places], after):
                return False
            flat[places] = before
        _kbv.synchronize()
        intact = self._hash(index) == self.hashes[index]
        for flat, places, before, after in self.patches.get(index, ()):
            flat[places] = after
        _kbv.synchronize()
        return intact

    def _hash(self, index):
        region = self.regions[index]
        return _kbv.hash(region.address, region.layout.total_bytes, self.key)

    # ---- Running ------------------------------------------------------------------------------

    def _inputs(self, index):
        return self.regions[index].value()

    def _run(self, model, inputs, seed):
        share.seed_generators(seed)
        with torch.no_grad():
            try:
                value = model(*inputs)
            except Exception as error:
                if share.is_out_of_memory(error):
                    raise MemoryError("the reference ran out of device memory") from None
                raise Unfit(f"the reference raised {share.last_line(error)}") from None
            _kbv.synchronize()
        return value

    def _outputs(self, model, inputs, seed):
        return share.leaves(share.with_scalars_as_tensors(self._run(model, inputs, seed)))

    def _expect(self, index, seed):
        """Oracle and baseline on what the set holds; keeps both."""
        problem.restore_state(self.model, self.snapshot)
        share.set_matmul(self.matmul_precision)
        value = share.with_scalars_as_tensors(self._run(self.model, self._inputs(index), seed))
        if not self._inputs_intact(index):
            raise Unfit("the reference writes to its inputs; kbv shares them read-only")
        tensors = share.leaves(value)
        if not tensors:
            raise Unfit(f"the reference returns no tensor but {tree.describe(value)}")
        for tensor in tensors:
            if not tree.is_plain(tensor) or share.dtype_name(tensor.dtype) is None:
                raise Unfit(f"the reference returns {tree.describe(tensor)}, which kbv cannot compare")
        self.description = tree.describe(value)
        device = share.device()
        self.baseline_outputs = [tensor.to(device).contiguous() for tensor in tensors]
        self.expected = [tensor.to(device).contiguous() for tensor in self._oracle(index, seed)]
        if [t.shape for t in self.expected] != [t.shape for t in self.baseline_outputs]:
            raise NotApplicable("the shape of the output depends on rounding")
        self.baseline_errors = [self._error(expected, baseline) for expected, baseline
                                in zip(self.expected, self.baseline_outputs)]

    @staticmethod
    def _error(expected, got):
        return _kbv.compare(expected.data_ptr(), share.dtype_name(expected.dtype), got.data_ptr(),
                            share.dtype_name(got.dtype), got.numel(), 0.0, 0.0)

    def _oracle(self, index, seed):
        if self.oracle_is_double:
            started = time.monotonic()
            try:
                outputs = self._oracle_double(index, seed)
                if time.monotonic() - started > ORACLE_SECONDS_MAX:
                    self._give_up_double("float64 takes over 10 s")
                return outputs
            except (Unfit, MemoryError, RuntimeError, TypeError, ValueError) as error:
                why = str(error) or type(error).__name__
            # Not in the handler: there the traceback still holds what was made.
            self._give_up_double(why)
        return self._oracle_single(index, seed)

    def _give_up_double(self, why):
        self.oracle_is_double = False
        self.oracle_model = None
        self.oracle_note = f"float32: {why}".encode("ascii", "replace").decode()[:60]
        if share.device().type == "cuda":
            torch.cuda.empty_cache()

    def _oracle_double(self, index, seed):
        if self.oracle_model is None:
            problem.restore_state(self.model, self.snapshot)
            self.oracle_model = problem.to_double(copy.deepcopy(self.model))
            self.oracle_snapshot = problem.snapshot_state(self.oracle_model)
        problem.restore_state(self.oracle_model, self.oracle_snapshot)
        inputs = problem.cast(self.regions[index].value(), torch.float64)
        previous = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            tensors = self._outputs(self.oracle_model, inputs, seed)
        finally:
            torch.set_default_dtype(previous)
        for tensor, baseline in zip(tensors, self.baseline_outputs):
            if tensor.dtype.is_floating_point != baseline.dtype.is_floating_point:
                raise Unfit("the reference changes its output's kind in float64")
        if len(tensors) != len(self.baseline_outputs):
            raise Unfit("the reference changes its outputs in float64")
        return tensors

    def _oracle_single(self, index, seed):
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
        try:
            if self.dtype == torch.float32:
                model, inputs = self.model, self._inputs(index)
            else:
                if self.oracle_model is None:
                    problem.restore_state(self.model, self.snapshot)
                    self.oracle_model = copy.deepcopy(self.model).float()
                    self.oracle_snapshot = problem.snapshot_state(self.oracle_model)
                model = self.oracle_model
                inputs = problem.cast(self.regions[index].value(), torch.float32)
            snapshot = self.snapshot if model is self.model else self.oracle_snapshot
            problem.restore_state(model, snapshot)
            return self._outputs(model, inputs, seed)
        finally:
            share.set_matmul(self.matmul_precision)

    def _look_for_live_random(self, index, seed):
        """Does forward draw random numbers? Then oracle and baseline must draw the same ones."""
        self.live_random = False
        first = self.baseline_outputs
        problem.restore_state(self.model, self.snapshot)
        again = self._outputs(self.model, self._inputs(index), seed ^ 0x5555555)
        for one, two in zip(first, again):
            if one.shape != two.shape:
                continue
            difference = self._error(one, two.to(one.device).contiguous())
            # Atomics also differ from run to run, but by rounding.
            if difference["n"] > 1e-3 or difference["mismatch_count"]:
                self.live_random = True
        if self.live_random and self.oracle_is_double:
            # Generators may draw other numbers for float64.
            self._give_up_double("forward draws random numbers")
            self._expect(index, seed)

    def _look_at_matmul(self, index, seed):
        """Does the matmul flag change the output, in one family at least (on the declared draw a
        ReLU may hide it all)? Where it does, there are two baselines."""
        self.matmul_matters = False
        if share.device().type == "cpu" or self.dtype != torch.float32:
            return
        other = "high" if self.matmul_precision == "highest" else "highest"
        share.set_matmul(other)
        problem.restore_state(self.model, self.snapshot)
        outputs = self._outputs(self.model, self._inputs(index), seed)
        share.set_matmul(self.matmul_precision)
        self.matmul_matters = any(not torch.equal(one, two.to(one.device)) for one, two
                                  in zip(self.baseline_outputs, outputs))

    def tf32(self):
        return bool(self.matmul_matters) and self.matmul_precision != "highest"

    def _check_finite(self, family):
        finite = nonfinite = 0
        for error, tensor in zip(self.baseline_errors, self.baseline_outputs):
            if error["mask_mismatches"]:
                if family == "D1":
                    raise Unfit("oracle and baseline are not finite in the same places")
                raise NotApplicable("oracle and baseline are not finite in the same places")
            nonfinite += error["nonfinite_got"]
            finite += tensor.numel() - error["nonfinite_got"]
            if error["mismatch_count"] and not tensor.dtype.is_floating_point:
                share_unequal = error["mismatch_count"] / max(tensor.numel(), 1)
                raise NotApplicable(f"oracle and baseline disagree on {share_unequal:.2%} of an integer "
                                    "output: ties decided by rounding")
        if family == "D1":
            if not finite:
                raise Unfit("the reference's output has no finite element")
            self.inherent_nonfinite = nonfinite > 0
        elif nonfinite and not self.inherent_nonfinite:
            raise NotApplicable("the reference is not finite on it")
        elif not finite:
            raise NotApplicable("nothing is finite on it")

    def _run_controls(self, index):
        """Bad candidates made from the reference: bit i was run, bit 8 + i kept within budget."""
        inputs, _ = tree.flatten(self.regions[index].value())
        bits = 0
        for position, name in enumerate(families.CONTROLS):  # in the order of enum control
            outputs = None  # the ones before go first
            outputs = families.control(name, self.baseline_outputs, inputs)
            if outputs is None:
                continue
            bits |= 1 << position
            passes = True
            for expected, got, error in zip(self.expected, outputs, self.baseline_errors):
                got = got.contiguous()
                result = _kbv.compare(expected.data_ptr(), share.dtype_name(expected.dtype),
                                      got.data_ptr(), share.dtype_name(got.dtype), got.numel(),
                                      error["s"], error["n"], self.tf32())
                passes = passes and result["excess"] <= 1.0
                if not passes:
                    break
            if passes:
                bits |= 1 << (8 + position)
        return bits


def serve(request, facts):
    reference = Reference(request, facts)
    handlers = {
        _kbv.MESSAGE_PROBLEM: reference.load, _kbv.MESSAGE_MODEL: reference.construct,
        _kbv.MESSAGE_STATE: reference.state, _kbv.MESSAGE_DRAW: reference.draw,
        _kbv.MESSAGE_EXPECT: reference.expect, _kbv.MESSAGE_OUTPUT_NEW: reference.output_new,
        _kbv.MESSAGE_POISON: reference.poison, _kbv.MESSAGE_COMPARE: reference.compare,
        _kbv.MESSAGE_PUBLISH: reference.publish, _kbv.MESSAGE_SETTLE: reference.settle,
        _kbv.MESSAGE_OUTPUT_HASH: reference.output_hash,
        _kbv.MESSAGE_DEVICE_MEMORY: reference.device_memory,
        _kbv.MESSAGE_NEEDED: reference.needed,
        _kbv.MESSAGE_ORACLE: lambda values, fds: (
            (reference.oracle_note, int(bool(reference.live_random)),
             int(bool(reference.matmul_matters))), []),
    }
    while (message := _kbv.receive(request.channel)) is not None:
        kind, values, fds = message
        line = 0
        try:
            values, reply_fds = handlers[kind](values, fds)
        except problem.ProblemError as error:
            failure, line, text = getattr(_kbv, "FAIL_" + error.kind.upper()), error.line or 0, error.text
            if error.__cause__ is not None and share.is_out_of_memory(error.__cause__):
                failure = _kbv.FAIL_OUT_OF_MEMORY
        except Unfit as error:
            failure, text = _kbv.FAIL_RAISED, str(error)
        except tree.TreeError as error:
            failure, text = _kbv.FAIL_RAISED, f"the problem's inputs or outputs: {error}"
        except _kbv.Error as error:
            failure, text = _kbv.FAIL_INTERNAL, error.args[1]
            if "memory" in text.lower():
                failure = _kbv.FAIL_OUT_OF_MEMORY
        except Exception as error:
            failure, text = _kbv.FAIL_INTERNAL, _where(error)
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                failure = _kbv.FAIL_NO_SPACE
            if share.is_out_of_memory(error):
                failure, text = _kbv.FAIL_OUT_OF_MEMORY, share.last_line(error)
        else:
            _kbv.send(request.channel, _kbv.MESSAGE_OK, values, reply_fds)
            for fd in reply_fds:
                os.close(fd)
            continue
        _kbv.send(request.channel, _kbv.MESSAGE_FAIL, (failure, line, text))
    return 0


def _where(error):
    import traceback
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno}: {share.last_line(error)}"
