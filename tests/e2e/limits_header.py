"""The limits of src/base/limits.h, by name."""

import re
from pathlib import Path

HEADER = Path(__file__).resolve().parents[2] / "src/base/limits.h"
LIMIT = re.compile(r"#define (LIMIT_\w+)\s+(?:\((\d+)u << (\d+)\)|(\d+))")
LIMITS = {name: int(whole or 0) or int(number or 0) << int(shift or 0)
          for name, number, shift, whole in LIMIT.findall(HEADER.read_text())}


def limit(name: str) -> int:
    return LIMITS[name]
