"""Draws recordings: speech of espeak-ng with pauses, in noise."""
import argparse
import io
import pathlib
import subprocess
import wave

import numpy as np

RATE, HOP, CONTEXT = 16000, 512, 64  # samples per second, of a window, and of the window before that the network sees
FRAMES = 94  # windows of a recording, 3 s
SETS = {"train": (0, 400), "val": (10_000, 1000), "test": (20_000, 500)}  # seed of the first, and their number
LOUD = 0.02  # root mean square of the speech from which on a window has the label speech
TEXTS = {
    "en-us": "please call stella ask her to bring these things with her from the store six spoons of fresh snow peas",
    "en-gb": "the north wind and the sun were disputing which was the stronger when a traveller came along",
    "de": "einst stritten sich nordwind und sonne wer von ihnen beiden wohl der stärkere wäre als ein wanderer",
    "es": "el viento norte y el sol discutían sobre cuál de ellos era el más fuerte cuando pasó un viajero",
    "ru": "однажды северный ветер и солнце поспорили кто из них сильнее как раз в это время они заметили путника",
}
VARIANTS = ["", "+f2", "+f4", "+m3", "+m5", "+m7"]


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--work", type=lambda s: pathlib.Path(s).resolve(), required=True, help="folder of all but the page")
    return p.parse_args()


def resampled(x, n):
    """x with n samples, by its Fourier transform."""
    f = np.fft.rfft(x)[: n // 2 + 1]
    return np.fft.irfft(np.pad(f, (0, n // 2 + 1 - len(f))), n) * n / len(x)


def spoken(rng):
    """A few words of a random voice."""
    language = list(TEXTS)[rng.integers(len(TEXTS))]
    words = TEXTS[language].split()
    text = " ".join(words[i] for i in rng.integers(0, len(words), rng.integers(2, 6)))
    out = subprocess.run(["espeak-ng", "-v", language + VARIANTS[rng.integers(len(VARIANTS))],
                          "-s", str(rng.integers(120, 220)), "-p", str(rng.integers(20, 80)), "--stdout", text],
                         capture_output=True, check=True).stdout
    with wave.open(io.BytesIO(out)) as f:
        rate = f.getframerate()
        x = np.frombuffer(f.readframes(-1), "<i2") / 32768
    return resampled(x, round(len(x) * RATE / rate))


def noise(rng, n):
    """White to pink noise of variance 1."""
    f = np.fft.rfft(rng.normal(size=n))
    f /= np.maximum(np.arange(len(f)), 20) ** rng.choice([0, 0.5, 1])
    x = np.fft.irfft(f, n)
    return x / x.std()


def recording(seed, frames=FRAMES):
    """Samples, and the label of each window: 1 where there is speech."""
    rng = np.random.default_rng(seed)
    n = frames * HOP
    speech, at = np.zeros(n), int(rng.integers(0, n // 6))
    while at < n:
        words = spoken(rng)[: n - at]
        speech[at : at + len(words)] = words * rng.uniform(0.3, 1) / np.abs(words).max()
        at += len(words) + int(rng.integers(RATE // 4, 3 * RATE // 2))
    level = np.sqrt((speech[speech != 0] ** 2).mean())
    x = speech + noise(rng, n) * level * 10 ** (-rng.uniform(-5, 20) / 20)
    labels = np.sqrt((speech.reshape(frames, HOP) ** 2).mean(1)) > LOUD
    return (x * 0.5 / np.abs(x).max()).astype(np.float32), labels.astype(np.int64)


def windows(x):
    """[T,576]: each window with the end of the one before, as the package gives it to the network."""
    x = np.concatenate([np.zeros(CONTEXT, np.float32), x])
    return np.stack([x[i : i + HOP + CONTEXT] for i in range(0, len(x) - CONTEXT, HOP)])


def main():
    work = arguments().work
    for name, (first, count) in SETS.items():
        path = work / f"{name}.npz"
        if path.exists():
            continue
        drawn = [recording(first + i) for i in range(count)]
        with open(path.with_suffix(".new"), "wb") as f:
            np.savez(f, input=np.stack([windows(x) for x, _ in drawn]), labels=np.stack([y for _, y in drawn]))
        path.with_suffix(".new").rename(path)
        print(name, count, "recordings")


if __name__ == "__main__":
    main()
