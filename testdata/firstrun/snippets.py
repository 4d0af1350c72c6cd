"""Runs the Python of docs/bundle.md and docs/tutorials/text.md on the results of the commands above it,
and compares its output with the indented lines below. It also runs the JavaScript that imports its packages, with those
of testdata/engines, and whole programs in C#, where there is dotnet and NuGet has Microsoft.ML.OnnxRuntime. The Python of docs/serving.md is only compiled; testdata/serve/clients tests it. With Node and in a
Python environment with onnxruntime, from the root of the repository:

    make build
    python testdata/firstrun/snippets.py
"""

import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
MFGS = ROOT / "mfgs"
# Variables that the text around a block defines.
GIVEN = {
    "docs/bundle.md": {"onnxruntime": onnxruntime, "images": np.zeros((2, 1, 8, 8), np.float32)},
    "docs/tutorials/text.md": {"json": json, "text": "tre", "label": 4, "tokenizer": lambda text: {"input_ids": [1, 26, 2], "attention_mask": [1, 1, 1]}},
}
PROJECT = """<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup><OutputType>Exe</OutputType><TargetFramework>{framework}</TargetFramework></PropertyGroup>
  <ItemGroup><PackageReference Include="Microsoft.ML.OnnxRuntime" Version="*" /></ItemGroup>
</Project>
"""


def commands(text):
    """The lines of ```console blocks that calibrate or export."""
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if re.match(r"\$ mfgs (calibrate|export) ", line):
                yield shlex.split(line[2:])


def blocks(text):
    """Each ```python block, and the indented output that follows it."""
    for found in re.finditer(r"^```python\n(.*?)^```\n(?:\n[^\n#|]+:\n\n((?:    [^\n]*\n)+))?", text, re.M | re.S):
        yield found[1], [line[4:] for line in (found[2] or "").splitlines()]


def same(got, shown):
    """Whether words are equal, and figures equal up to rounding."""

    def near(a, b):
        try:
            return abs(float(a.rstrip("%")) - float(b.rstrip("%"))) <= 0.01 * abs(float(b.rstrip("%")))
        except ValueError:
            return a == b

    return len(got) == len(shown) and all(map(near, got, shown))


def javascript(text):
    """Runs each ```js block that imports its packages, and returns how many there are."""
    programs = [code for code in re.findall(r"^```js\n(.*?)^```$", text, re.M | re.S) if "import " in code]
    if programs:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(ROOT / "testdata/engines" / name, name)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], check=True)
    for code in programs:
        subprocess.run(["node", "--input-type=module"], input=code, text=True, check=True)
        print(f"JavaScript of {len(code.splitlines())} lines ran")
    return len(programs)


def csharp(text):
    """Runs each ```csharp block that is a program, and returns how many there are."""
    programs = [code for code in re.findall(r"^```csharp\n(.*?)^```$", text, re.M | re.S) if "static void Main" in code]
    if programs and not shutil.which("dotnet"):
        print("NOT RUN: the programs in C#, as there is no dotnet")
        return len(programs)
    for code in programs:
        version = subprocess.run(["dotnet", "--version"], capture_output=True, text=True, check=True).stdout.split(".")
        folder = pathlib.Path("csharp")
        folder.mkdir()
        (folder / "check.cs").write_text(code)
        (folder / "check.csproj").write_text(PROJECT.format(framework=f"net{'coreapp' if int(version[0]) < 5 else ''}{version[0]}.{version[1]}"))
        subprocess.run(["dotnet", "run", "--project", folder], check=True)
        shutil.rmtree(folder)
        print(f"C# of {len(code.splitlines())} lines ran")
    return len(programs)


def main():
    ran = 0
    for name, given in GIVEN.items():
        text = (ROOT / name).read_text()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for shared in ("models", "testdata"):
                os.symlink(ROOT / shared, shared)
            if any(re.search(r"InferenceSession", code) for code, _ in blocks(text)):
                for line in commands(text):
                    subprocess.run([MFGS, *line[1:]], check=True, capture_output=True)
            for code, shown in blocks(text):
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(code, name, "exec"), dict(given))
                got = printed.getvalue().splitlines()
                if shown and not same(" ".join(got).split(), " ".join(shown).split()):
                    sys.exit(f"{name}: printed\n" + "\n".join(got) + "\nand shown\n" + "\n".join(shown))
                print(f"{name}: a block of {len(code.splitlines())} lines ran, {len(shown)} lines of output as shown")
                ran += 1
            ran += javascript(text) + csharp(text)
            os.chdir(ROOT)
    for code, _ in blocks((ROOT / "docs/serving.md").read_text()):
        compile(code, "docs/serving.md", "exec")
        ran += 1
    if ran < 8:
        sys.exit(f"{ran} blocks found, want at least 8")


main()
