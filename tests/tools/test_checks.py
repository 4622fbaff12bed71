"""The checks of tools/ find what they are there for: each is run on a small tree with one fault."""

import gzip
import hashlib
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def run_tool(name: str, *arguments: object) -> subprocess.CompletedProcess:
    command = [str(REPOSITORY / "tools" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


ROOMS = """
| `src/base/` | the ground | nothing |
| `src/text/` | texts | base |
| `src/engine/` | the engine | base, text |
"""


def rooms(root: Path, table: str = ROOMS) -> None:
    write(root / "ARCHITECTURE.md", table)
    for room in ("base", "text", "engine"):
        write(root / f"src/{room}/{room}.h", "")


def test_layers_accept_what_the_table_says(tmp_path):
    rooms(tmp_path)
    write(tmp_path / "src/engine/sampling/topk.c",
          '#include "text/text.h"\n#include "base/base.h"\n')
    result = run_tool("check-layers", tmp_path)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("line, message", [
    ('#include "engine/engine.h"', "text does not know engine"),
    ('#include "text.h"', "name its room in full"),
    ('#  include "../base/base.h"', "name its room in full"),
])
def test_layers_refuse(tmp_path, line, message):
    rooms(tmp_path)
    write(tmp_path / "src/text/a.c", line + "\n")
    result = run_tool("check-layers", tmp_path)
    assert result.returncode == 1 and message in result.stdout


@pytest.mark.parametrize("table, message", [
    (ROOMS.replace("| base |", "| base, engine |"), "text knows engine, which comes later"),
    (ROOMS.replace("| base, text |", "| base, tekst |"), "engine knows tekst, which has no row"),
    (ROOMS + "| `src/cli/` | commands | base |\n", "src/cli does not exist"),
])
def test_layers_refuse_a_table(tmp_path, table, message):
    rooms(tmp_path, table)
    result = run_tool("check-layers", tmp_path)
    assert result.returncode == 1 and message in result.stdout


def test_layers_refuse_a_folder_without_a_row(tmp_path):
    rooms(tmp_path)
    write(tmp_path / "src/util/a.c", "")
    assert "util has no row" in run_tool("check-layers", tmp_path).stdout


def compile_objects(root: Path, sources: dict[str, str]) -> Path:
    """Writes the sources below src/ and compiles them; the folder of the objects."""
    for name, source in sources.items():
        write(root / "src" / name, source)
        target = (root / "objects" / name).with_suffix(".o")
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-c", "-o", target, root / "src" / name], check=True)
    return root / "objects"


@pytest.mark.parametrize("base, message", [
    ("int text_f(void); int base_f(void) { return text_f(); }", "base does not know text"),
    ("int base_f(void) { return 0; }", None),
])
def test_layers_refuse_calls(tmp_path, base, message):
    rooms(tmp_path)
    objects = compile_objects(tmp_path, {
        "base/base.c": base,
        "text/text.c": "int base_f(void); int text_f(void) { return base_f(); }"})
    result = run_tool("check-layers", tmp_path, objects)
    assert (result.returncode == 0) == (message is None), result.stdout
    assert message is None or (message in result.stdout and "a circle of 2 files" in result.stdout)


def function(body_lines: int) -> str:
    return "int f(void)\n{\n" + "    g();\n" * body_lines + "}\n"


@pytest.mark.parametrize("text, message", [
    (function(69), "a function of 71 lines"),
    ("x\n" * 801, "801 lines"),
    ("x" * 101 + "\n", "101 columns"),
])
def test_size_refuses(tmp_path, text, message):
    write(tmp_path / "src/base/a.c", text)
    result = run_tool("check-size", tmp_path)
    assert result.returncode == 1 and message in result.stdout


def test_size_accepts_the_largest_and_warns(tmp_path):
    write(tmp_path / "src/base/a.c", function(68) + "x\n" * 700)
    result = run_tool("check-size", tmp_path)
    assert result.returncode == 0 and "warning" in result.stdout


README = "# kv\n\n1. `kv`, `prefix`: blocks\n"
HOP = "| 1 | E | `engine/kv.c` `kv_open` | opens |\n"


@pytest.mark.parametrize("readme, hop, message", [
    (README, HOP, None),
    (README.replace("`, `prefix", ""), HOP, "does not name prefix"),
    (README + "2. `gone`: nothing\n", HOP, "names gone, which is not there"),
    (README + "2. `kv`: again\n", HOP, "names kv twice"),
    (README, HOP.replace("kv_open", "kv_shut"), "does not define kv_shut"),
    (README, HOP.replace("engine/kv.c", "engine/kvs.c"), "does not define kv_open"),
    ("", HOP, "does not name kv"),
])
def test_rooms(tmp_path, readme, hop, message):
    write(tmp_path / "src/engine/kv.c", "int kv_open(void)\n{\n    return kv_shut();\n}\n")
    write(tmp_path / "src/engine/prefix.h", "")
    write(tmp_path / "src/engine/README.md", readme)
    write(tmp_path / "ARCHITECTURE.md", hop)
    result = run_tool("check-rooms", tmp_path)
    assert (result.returncode == 0) == (message is None), result.stdout
    assert message is None or message in result.stdout


@pytest.mark.parametrize("text, accepted", [
    ("/* As kv.h has it, and linux/landlock.h. */\nint old.c;\n", True),
    ("/* As\n * block.h has it. */\n", False),
])
def test_rooms_read_comments(tmp_path, text, accepted):
    write(tmp_path / "src/engine/kv.h", text)
    write(tmp_path / "src/engine/README.md", "1. `kv`: blocks\n")
    write(tmp_path / "ARCHITECTURE.md", "")
    assert (run_tool("check-rooms", tmp_path).returncode == 0) == accepted


@pytest.mark.parametrize("comment, torn", [
    ("/* Text.\n *\n *     a ─► b\n *     └─► c\n *\n * More.\n */", None),
    ("/* Text.\n *\n *     a ─► b ─►\n * c\n */", 4),
    ("/* Text that goes on,\n *     with a list\n * and an end. */", None),
])
def test_drawings(tmp_path, comment, torn):
    write(tmp_path / "src/base/a.h", comment + "\n")
    result = run_tool("check-drawings", tmp_path)
    assert (result.returncode == 0) == (torn is None), result.stdout
    assert torn is None or f"a.h:{torn}: " in result.stdout


@pytest.mark.parametrize("source, accepted", [
    ("int kv_open(void) { return 0; }", True),
    ("static int other(void) { return 0; } int kv(void) { return other(); }", True),
    ("int engine_kv_of(void) { return 0; }", True),  # engine.h declares it
    ("int engine_kv(void) { return 0; }", False),
    ("int kvs_open(void) { return 0; }", False),
    ("int global;", False),
])
def test_names(tmp_path, source, accepted):
    write(tmp_path / "src/engine/engine.h", "/* int engine_kv(void); */\nint engine_kv_of(void);\n")
    objects = compile_objects(tmp_path, {"engine/kv.c": source})
    assert (run_tool("check-names", objects, tmp_path / "src").returncode == 0) == accepted


def test_names_are_unique(tmp_path):
    write(tmp_path / "src/engine/kv.h", "")
    write(tmp_path / "src/base/kv.c", "")
    result = run_tool("check-names", tmp_path / "objects", tmp_path / "src")
    assert result.returncode == 1 and "the same name" in result.stdout


def test_hosts(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    write(tmp_path / "a.txt", "see py" + "pi.org for more\n")
    assert run_tool("check-hosts", tmp_path).returncode == 0, "an untracked file is no matter"
    subprocess.run(["git", "-C", tmp_path, "add", "a.txt"], check=True)
    assert run_tool("check-hosts", tmp_path).returncode == 1


def test_limits(tmp_path):
    header = "/* Requests */\n#define LIMIT_A (8u << 20) /* bytes */\n"
    write(tmp_path / "src/base/limits.h", header)
    write(tmp_path / "tests/test_a.c", "LIMIT_A")
    (tmp_path / "docs").mkdir()
    assert run_tool("check-limits", tmp_path).returncode == 1
    assert run_tool("check-limits", "--write", tmp_path).returncode == 0
    assert "| `LIMIT_A` | 8 Mi | bytes |" in (tmp_path / "docs/limits.md").read_text()
    assert run_tool("check-limits", tmp_path).returncode == 0


def test_limits_have_a_test_or_a_reason(tmp_path):
    write(tmp_path / "src/base/limits.h", "/* LIMIT_B has none. */\n/* Requests */\n"
          "#define LIMIT_A 1\n#define LIMIT_B 2\n#define LIMIT_AA 3\n")
    write(tmp_path / "tests/e2e/test_a.py", 'limit("LIMIT_AA")')
    (tmp_path / "docs").mkdir()
    run_tool("check-limits", "--write", tmp_path)
    result = run_tool("check-limits", tmp_path)
    assert result.returncode == 1
    assert result.stdout == f"{tmp_path}/src/base/limits.h: no test names LIMIT_A\n"


PARAM_ROW = """/* PARAM(name) is a row. */
PARAM(heat, float, ABOVE, 0, LIMIT_HEAT, 0.5, "a.heat",
      "hotter, wilder")
PARAM(count, uint32_t, FROM, -1, 9, 4, "", "how many")
"""


def params(root: Path) -> None:
    write(root / "src/params/sampling_params.def", PARAM_ROW)
    write(root / "src/base/limits.h", "#define LIMIT_HEAT 77 /* degrees */\n")
    write(root / "proto/firstlight.proto",
          "message Sampling {\n  optional float heat = 1;\n  optional int32 count = 2;\n}\n")
    mark = "<!-- made by tools/check-params from src/params/sampling_params.def -->"
    write(root / "docs/api.md", f"before\n\n{mark}\nold\n\nafter\n")


def test_params(tmp_path):
    params(tmp_path)
    assert run_tool("check-params", tmp_path).returncode == 1
    assert run_tool("check-params", "--write", tmp_path).returncode == 0
    page = (tmp_path / "docs/api.md").read_text()
    assert ("| `heat` | hotter, wilder | `a.heat` | above 0, up to 77 | the model's, else 0.5 |\n"
            in page)
    assert "| `count` | how many |  | whole, 0 to 9; -1 means 0 | 4 |\n\nafter\n" in page
    assert run_tool("check-params", tmp_path).returncode == 0


@pytest.mark.parametrize("file, old, new, message", [
    ("proto/firstlight.proto", "int32 count", "float count", "optional int32 count"),
    ("proto/firstlight.proto", "heat", "cold", "optional float heat"),
    ("docs/api.md", "| 4 |", "| 5 |", "run tools/check-params --write"),
    ("docs/api.md", "<!-- made", "<!-- was made", "expected one table"),
    ("src/params/sampling_params.def", "ABOVE, 0,", "ABOVE 0,", "2 rows, of which 1 can be read"),
])
def test_params_refuse(tmp_path, file, old, new, message):
    params(tmp_path)
    assert run_tool("check-params", "--write", tmp_path).returncode == 0
    text = (tmp_path / file).read_text()
    assert old in text
    write(tmp_path / file, text.replace(old, new))
    result = run_tool("check-params", tmp_path)
    assert result.returncode == 1 and message in result.stdout + result.stderr


def test_profiles(tmp_path):
    for name in ["src/engine/profile.c", "src/engine/profile.h", "src/engine/policy.c",
                 "src/engine/policy.h", "docs/scheduling.md"]:
        write(tmp_path / name, (REPOSITORY / name).read_text())
    assert run_tool("check-profiles", tmp_path).returncode == 0
    rows, page = tmp_path / "src/engine/profile.c", tmp_path / "docs/scheduling.md"
    rows.write_text(rows.read_text().replace(".decode_gap_ms = 50,", ".decode_gap_ms = 51,"))
    assert run_tool("check-profiles", tmp_path).returncode == 1
    assert run_tool("check-profiles", "--write", tmp_path).returncode == 0
    assert " promised | 51 | " in page.read_text()
    assert run_tool("check-profiles", tmp_path).returncode == 0
    page.write_text(page.read_text().replace("| `fifo` |", "| `fofi` |"))
    assert run_tool("check-profiles", tmp_path).returncode == 1


def test_embed_page(tmp_path):
    write(tmp_path / "b.js", "// b\n" * 100)
    write(tmp_path / "lib/a.min.js", "// a\n")
    out = tmp_path / "out"
    result = run_tool("embed-page", out, tmp_path / "b.js", f"a.js={tmp_path}/lib/a.min.js")
    assert result.returncode == 0, result.stderr
    first, second = (out / "assets.inc").read_text().splitlines()
    assert first.startswith('ASSET(0, "a.js", "text/javascript; charset=utf-8", "')
    assert second.startswith('ASSET(1, "b.js", ') and f'"{out}/b.js.gz")' in second
    packed = (out / "b.js.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "b.js").read_bytes()
    hashed = hashlib.sha256((tmp_path / "b.js").read_bytes()).hexdigest()[:16]
    assert f'"{hashed}", 500, {len(packed)}, ' in second


@pytest.mark.parametrize("name, message", [
    ("a.exe", "expected .html, .css"),
    ("none.js", "make deps installs what is missing"),
    ("a b.js", "a name has letters"),
])
def test_embed_page_refuses(tmp_path, name, message):
    if name != "none.js":
        write(tmp_path / name, "x")
    result = run_tool("embed-page", tmp_path / "out", tmp_path / name)
    assert result.returncode == 1 and message in result.stderr
    assert not (tmp_path / "out/assets.inc").exists()
