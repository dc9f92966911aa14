"""Files of the safetensors format on SSDs: `open` reads tensors by name, `save` writes them.

A file begins at any block of an SSD, as the `safetensors` package writes it. `save` adds checksums, which `open` compares.
"""

from __future__ import annotations

from ._file import Handle, TensorReadError, open
from ._header import ChecksumError, FormatError
from ._save import save

__all__ = ["ChecksumError", "FormatError", "Handle", "TensorReadError", "open", "save"]
