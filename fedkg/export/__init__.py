"""Export of models with their rules: one file for ONNX or `torch.export`, and a certificate."""

from fedkg.export.model import export_model

__all__ = ["export_model"]
