"""A model with its rules as one graph from raw inputs to raw outputs, for ONNX and `torch.export`.

Letters: B batch, F features, H outputs.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from typing_extensions import override

from fedkg.constraints.binding.layout import InputLayout, OutputLayout, columns, window_names
from fedkg.constraints.module import ConstraintModule
from fedkg.errors import MissingExtra
from fedkg.knowledge.injected_model import Injected

Format = Literal["onnx", "torch"]

Array = NDArray[np.float64]

MODEL_FILES: dict[Format, str] = {"onnx": "model.onnx", "torch": "model.pt2"}
"""The name of the model file of each format."""

LARGEST_BATCH = 2**31
"""Upper limit of the batch size of a graph."""


class GraphModel(nn.Module):
    """A model that becomes a file: from float64 inputs in source units to float64 outputs.

    Args:
        names: of the inputs of a row, or of one step of a window.
        mean: one number for each name; random inputs are drawn around it.
        std: one number for each name.
        steps: of a window; 0 for rows.
    """

    mean: Tensor
    std: Tensor
    listed: Sequence[tuple[Sequence[int], Array]] = ()
    """The rows of each lookup table in the model: positions of the features, and values [R, P]."""

    def __init__(
        self, names: Sequence[str], mean: Sequence[float], std: Sequence[float], steps: int = 0
    ) -> None:
        super().__init__()
        self.names, self.steps = tuple(names), steps
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float64))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float64))

    @property
    def flat_names(self) -> tuple[str, ...]:
        """Names of the inputs of a row, or of a flattened window."""
        return window_names(self.names, self.steps) if self.steps else self.names


class RawModel(GraphModel):
    """A model from inputs in source units to outputs in the units of the rules.

    The model inside computes in its own dtype; scaling and projection use float64.

    Args:
        model: from scaled features [B, F] to answers [B, H] in the layout `y`.
        x: names and scaling of the features.
        y: kinds and scaling of the answers; None if they need no conversion.
        rules: the rules whose linear parts the answers satisfy; None for none.
    """

    offset: Tensor
    gain: Tensor

    def __init__(
        self,
        model: nn.Module,
        x: InputLayout,
        y: OutputLayout | None = None,
        rules: ConstraintModule | None = None,
    ) -> None:
        super().__init__(x.names, x.mean or (0.0,) * len(x.names), x.std or (1.0,) * len(x.names))
        self.model = model
        raw = columns(x.names, sure=True)
        # rules read raw inputs: thresholds stay exact
        self.informed = model.with_layout(raw) if isinstance(model, Injected) else None
        self.rules = None if rules is None else ConstraintModule(rules.pack, x=raw, y=rules.plan.y)
        entries = () if y is None else y.entries
        self.logits = tuple(entry.kind == "logit" for entry in entries)
        first = next(iter(model.parameters()), None)
        self.dtype = torch.float32 if first is None else first.dtype
        for name, numbers in (
            ("offset", [entry.mean for entry in entries]),
            ("gain", [entry.std for entry in entries]),
        ):
            self.register_buffer(name, torch.tensor(numbers, dtype=torch.float64))

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        """The outputs for raw inputs, float64 [B, F] to float64 [B, H]."""
        scaled = ((inputs - self.mean) / self.std).to(self.dtype)
        if self.informed is not None:
            known = self.informed.knowledge(inputs, policy="repair")
            answers: Tensor = self.model(scaled, knowledge=known).to(torch.float64)
        else:
            answers = self.model(scaled).to(torch.float64)
        if self.rules is not None:
            answers = self.rules.project(inputs, answers)
        if any(self.logits):
            chosen = torch.tensor(self.logits)
            answers = torch.where(chosen, torch.sigmoid(answers), answers)
        return answers * self.gain + self.offset if self.logits else answers


def model_bytes(model: GraphModel, example: Array, format: Format) -> bytes:
    """The file of a model for any batch size.

    Args:
        example: raw inputs, float64 [B, F] or windows [B, T, F].
        format: "onnx" or "torch" (`torch.export`).

    Raises:
        MissingExtra: onnxscript is not installed.
        LayoutError, KnowledgeError, SetError: a rule or knowledge cannot be part of a graph.
    """
    inputs = torch.from_numpy(example)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model(inputs)  # prepares what is the same for every sample
            program = torch.export.export(
                model,
                (inputs,),
                dynamic_shapes=({0: torch.export.Dim("batch", max=LARGEST_BATCH)},),
            )
            return _onnx_bytes(program) if format == "onnx" else _torch_bytes(program)
    finally:
        model.train(was_training)


def _torch_bytes(program: torch.export.ExportedProgram) -> bytes:
    program.graph_module.graph.eliminate_dead_code()  # PyTorch cannot load unused nodes
    # PyTorch cannot save constants that are views of other storage
    for name, value in program.constants.items():
        if isinstance(value, Tensor):
            program.constants[name] = value.detach().clone(memory_format=torch.contiguous_format)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


def _onnx_bytes(program: torch.export.ExportedProgram) -> bytes:
    """The program as an ONNX file. PyTorch's optimiser is off: it removes additions of small
    numbers, which keep answers inside their bounds.
    """
    try:
        from onnxscript import optimizer
    except ImportError as error:
        raise MissingExtra("export to ONNX", "export") from error
    log = logging.getLogger("torch.onnx")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        made = torch.onnx.export(
            program,
            dynamo=True,
            optimize=False,
            verbose=False,
            input_names=["inputs"],
            output_names=["outputs"],
        )
        assert made is not None, "no file was asked for"
        optimizer.inline(made.model)
        optimizer.fold_constants(made.model)
        optimizer.remove_unused_nodes(made.model)
        return bytes(made.model_proto.SerializeToString())
    finally:
        log.setLevel(level)


def load_graph(body: bytes, format: Format) -> tuple[Callable[[Array], Array], str]:
    """A function that runs a model file on raw inputs, and the name of the runtime.

    Raises:
        MissingExtra: onnxruntime is not installed.
    """
    if format == "torch":
        module: Any = torch.export.load(io.BytesIO(body)).module()

        def run_torch(inputs: Array) -> Array:
            with torch.no_grad():
                return np.asarray(module(torch.from_numpy(inputs)).numpy(), dtype=np.float64)

        return run_torch, f"torch {torch.__version__}"
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingExtra("export to ONNX", "export") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(body, options, providers=["CPUExecutionProvider"])
    [name] = [given.name for given in session.get_inputs()]

    def run_onnx(inputs: Array) -> Array:
        return np.asarray(session.run(None, {name: inputs})[0], dtype=np.float64)

    return run_onnx, f"onnxruntime {onnxruntime.__version__}"
