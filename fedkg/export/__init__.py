"""Export of models with their rules: one file for ONNX or `torch.export`, and a certificate."""

from fedkg.export.certified_model_export import export_model

__all__ = ["export_model"]
