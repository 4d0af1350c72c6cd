"""Tests the package, by test.sh."""

import copy
import gc
import importlib.util
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import warnings

import numpy as np
import onnx
import pandas
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from skl2onnx import to_onnx
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import mfgs

HERE = pathlib.Path(__file__).parent


def two_inputs(d=3, k=4, n="N", kind=TensorProto.FLOAT):
    """A model of two inputs a and b [N,d], a layer of K logits over their sum, and its weights."""
    w = np.random.default_rng(5).normal(size=(d, k)).astype(np.float32)
    nodes = [
        helper.make_node("Add", ["a", "b"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["features"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["features", "w"], ["logits"]),
    ]
    inputs = [helper.make_tensor_value_info(name, kind, [n, d]) for name in "ab"]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [n, k])]
    graph = helper.make_graph(nodes, "two", inputs, outputs, [numpy_helper.from_array(w, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), w


def drawn(n, w, seed):
    """N examples of the model, with labels drawn from logits of half the size."""
    rng = np.random.default_rng(seed)
    x = {name: rng.normal(size=(n, len(w))) for name in "ab"}
    z = (x["a"] + x["b"]) @ w / 2
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    return x, np.array([rng.choice(len(row), p=row) for row in p])


class CalibrateTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model, cls.w = two_inputs()
        cls.train, cls.val, cls.test = (drawn(n, cls.w, n) for n in (400, 600, 800))
        cls.bundle = mfgs.calibrate(cls.model, cls.train, cls.val, alpha=0.2, target_error=0.4)

    def test_class_names_of_a_manifest_are_read(self):
        names = {r'"\U0001F600"': "\U0001f600", r'"\e\x7f\t\"\\n"': '\x1b\x7f\t"\\n', "'it''s'": "it's", "plain": "plain"}
        self.assertEqual({name: mfgs._bundle._unquoted(name) for name in names}, names)

    def test_arrays_and_files_predict_the_same(self):
        x, y = self.test
        want = self.bundle.predict(x)
        self.assertEqual(want.probabilities.shape, (800, 4))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "x.npz")
            np.savez(path, a=x["a"].astype(np.float32), b=x["b"].astype(np.float32), labels=y)
            for got in (self.bundle.predict(path), self.bundle.predict(str(path))):
                for field in ("probabilities", "ood_score", "ood_percentile", "abstain", "prediction_set", "label"):
                    a, b = getattr(got, field), getattr(want, field)
                    self.assertLessEqual(np.abs(a.astype(float) - b).max(), 1e-6, field)

    def test_calibration_helps_and_sets_cover(self):
        x, y = self.test
        p = self.bundle.predict_proba(x)
        z = (x["a"] + x["b"]) @ self.w
        own = np.exp(z) / np.exp(z).sum(1, keepdims=True)

        def nll(p):
            return -np.log(p[np.arange(len(y)), y]).mean()

        self.assertLess(nll(p), nll(own) - 0.05)
        self.assertGreater(self.bundle.predict_set(x)[np.arange(len(y)), y].mean(), 0.75)

    def test_features_calibrate_as_their_model(self):
        (xt, _), (xv, yv), (x, _) = self.train, self.val, self.test

        def rows(x):
            phi = (x["a"].astype(np.float32) + x["b"].astype(np.float32))
            return phi, phi @ self.w

        bundle = mfgs.calibrate(*rows(xv), yv, train=rows(xt), alpha=0.2, target_error=0.4)
        got, want = bundle.predict(features=rows(x)[0], logits=rows(x)[1]), self.bundle.predict(x)
        self.assertLessEqual(np.abs(got.probabilities - want.probabilities).max(), 1e-5)

    def test_a_bundle_of_features_needs_no_model(self):
        x, y = self.test
        phi = (x["a"] + x["b"]).astype(np.float32)
        names = ["a: b", "'c'", '"d"', "é\t"]
        with tempfile.TemporaryDirectory() as name:
            file, data = pathlib.Path(name, "classes.json"), pathlib.Path(name, "x.npz")
            file.write_text(json.dumps(names))
            np.savez(data, features=phi, logits=phi @ self.w, labels=y)
            bundle = mfgs.calibrate(phi[:400], (phi @ self.w)[:400], y[:400], classes=file)
            got = bundle.predict(data)
            of_arrays = bundle.evaluate(({"features": phi, "logits": phi @ self.w}, y)).results
            of_file = bundle.evaluate(data).results
        self.assertEqual([bundle.classes, got.classes], [names, names])
        self.assertTrue((got.probabilities == bundle.predict(features=phi, logits=phi @ self.w).probabilities).all())
        self.assertEqual(of_arrays["methods"][0]["in_domain"], of_file["methods"][0]["in_domain"])

    def test_a_fixed_batch_takes_any_number(self):
        fixed = mfgs.calibrate(two_inputs(n=3)[0], self.train, self.val)
        dynamic = mfgs.calibrate(self.model, self.train, self.val)
        for n in (800, 3, 1):
            x = {name: value[:n] for name, value in self.test[0].items()}
            got, want = fixed.predict(x), dynamic.predict(x)
            self.assertLessEqual(np.abs(got.probabilities - want.probabilities).max(), 1e-6)
            self.assertLessEqual(np.abs(got.ood_score - want.ood_score).max(), 1e-5)

    def test_numbers_of_any_type_are_the_same(self):
        (xt, _), (xv, yv), (x, y) = (({k: np.rint(v * 2) + 9 for k, v in x.items()}, y) for x, y in (self.train, self.val, self.test))
        types = (np.float64, np.uint8, np.int32, np.int64, np.longdouble, ">i4", object)
        for kind in (TensorProto.FLOAT, TensorProto.INT64):
            model, want = two_inputs(kind=kind)[0], None
            for to in types:
                at = [{k: np.asfortranarray(v.astype(to)) for k, v in x.items()} for x in (xt, xv, x)]
                bundle = mfgs.calibrate(model, at[0], (at[1], yv))
                got = bundle.predict(at[2]).probabilities
                nll = bundle.evaluate((at[2], y)).results["methods"][0]["in_domain"]["nll"]
                want = want or (got.tolist(), nll)
                self.assertEqual((got.tolist(), nll), want, to)
        with self.assertRaisesRegex(ValueError, "a takes int64, which cannot hold all values of the float64 array"):
            bundle.predict({name: value + 0.5 for name, value in x.items()})

    def test_options_of_predict_are_for_arrays_too(self):
        x, _ = self.test
        got, want = self.bundle.predict(x, batch=7), self.bundle.predict(x)
        self.assertLessEqual(np.abs(got.probabilities - want.probabilities).max(), 1e-6)
        with self.assertRaisesRegex(mfgs.MfgsError, "nonsense"):
            self.bundle.predict(x, nonsense=3)

    def test_a_bundle_without_its_model_takes_it_as_an_option(self):
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name, "model.onnx")
            onnx.save(self.model, file)
            bundle = mfgs.calibrate(file, self.train, self.val, no_model=True)
            got = bundle.predict(self.test[0], model=file)
            self.assertIn("nll", json.dumps(bundle.evaluate(self.test, model=file).results))
        self.assertEqual(got.probabilities.shape, (800, 4))

    def test_missing_values_are_refused_as_in_files(self):
        x = {name: value.copy() for name, value in self.test[0].items()}
        x["a"][5, 0] = np.nan
        with self.assertRaisesRegex(mfgs.MfgsError, r"x\[5\]: the probabilities are not finite"):
            self.bundle.predict(x)
        with self.assertRaisesRegex(mfgs.MfgsError, r"\[5\]: logit 0 is NaN"):
            self.bundle.predict(x, batch=10)

    def test_evaluation_is_shown_as_a_report(self):
        noise = {name: 5 * value for name, value in self.test[0].items()}
        got = self.bundle.evaluate(self.test, ood={"far": noise})
        self.assertIn("nll", json.dumps(got.results))
        self.assertIn("far", got.report)
        self.assertTrue(got._repr_html_().startswith("<iframe srcdoc="))
        self.assertNotIn("<html", repr(got))
        with self.assertRaisesRegex(TypeError, "leave report out"):
            self.bundle.evaluate(self.test, report="report.html")

    def test_a_bundle_is_kept_where_it_is_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = self.bundle.save(pathlib.Path(folder, "kept"))
            self.bundle.export(pathlib.Path(folder, "m.onnx"), probe=True)
            self.assertTrue(pathlib.Path(folder, "m.probe.json").exists())
            self.assertTrue((kept.predict_proba(self.test[0]) == self.bundle.predict_proba(self.test[0])).all())
            self.assertTrue((mfgs.Bundle(kept.path).predict_proba(self.test[0]) == kept.predict_proba(self.test[0])).all())

    def test_what_the_program_refuses_is_an_exception(self):
        x, y = self.val
        for wrong, call in {
            "label 4": lambda: mfgs.calibrate(self.model, self.train, (x, y + 1)),
            "--no-such-option": lambda: mfgs.calibrate(self.model, self.train, self.val, no_such_option=1),
            "calibrate with alpha": lambda: mfgs.calibrate(self.model, self.train, self.val).predict_set(x),
            "no such file": lambda: mfgs.calibrate("nowhere.onnx", self.train, self.val),
        }.items():
            with self.assertRaisesRegex(mfgs.MfgsError, wrong):
                call()
        with self.assertRaisesRegex(ValueError, "a dict with an array for each of a, b"):
            self.bundle.predict(x["a"])
        with self.assertRaisesRegex(ValueError, "a dict with an array for each of a, b"):
            mfgs.calibrate(self.model, {**x, "c": x["a"]}, self.val)
        with self.assertRaises(FileNotFoundError):
            mfgs.Bundle("nowhere")

    def test_what_is_missing_or_misplaced_is_named(self):
        x, y = self.val
        with tempfile.TemporaryDirectory() as name:
            for wrong, call in {
                "calibrate.. needs train and val": lambda: mfgs.calibrate(self.model, self.train),
                "calibrate.. needs train and val ": lambda: mfgs.calibrate(self.model, val=self.val),
                "calibrate.. needs a model, train and val, or": lambda: mfgs.calibrate(x["a"], x["b"]),
                "calibrate.. needs a model": lambda: mfgs.calibrate(),
                "cannot resume with data in memory": lambda: mfgs.calibrate(
                    self.model, self.train, self.val, out=pathlib.Path(name, "b"), resume=True
                ),
                "predict.. needs x": lambda: self.bundle.predict(),
                "predict.. needs logits": lambda: self.bundle.predict(features=x["a"]),
            }.items():
                with self.assertRaisesRegex(TypeError, wrong):
                    call()
        with self.assertRaisesRegex(mfgs.MfgsError, '"true" for --alpha'):
            mfgs.calibrate(self.model, self.train, self.val, alpha=True)

    def test_a_posterior_takes_the_place_of_train(self):
        w, variances = self.w.T.astype("<f8"), np.full(self.w.size, 0.01, "<f8")
        header = json.dumps({
            "weight": {"dtype": "F64", "shape": w.shape, "data_offsets": [0, w.nbytes]},
            "covariance": {"dtype": "F64", "shape": variances.shape, "data_offsets": [w.nbytes, w.nbytes + variances.nbytes]},
        }).encode()
        with tempfile.TemporaryDirectory() as name:
            file = pathlib.Path(name, "posterior.safetensors")
            file.write_bytes(len(header).to_bytes(8, "little") + header + w.tobytes() + variances.tobytes())
            bundle = mfgs.calibrate(self.model, val=self.val, posterior=file)
        self.assertEqual(bundle.predict_proba(self.test[0]).shape, (800, 4))

    def test_lists_are_options(self):
        got = self.bundle.evaluate(self.test, methods=["mle", "mf0"])
        self.assertEqual([method["name"] for method in got.results["methods"]][:2], ["mle", "mf0"])

    def test_a_relative_folder_stays_where_it_is(self):
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as name:
            os.chdir(name)
            try:
                bundle = mfgs.calibrate(self.model, self.train, self.val, out="here")
            finally:
                os.chdir(before)
            self.assertEqual(bundle.predict_proba(self.test[0]).shape, (800, 4))

    def test_another_program_is_refused(self):
        for text, wrong in (("#!/bin/sh\necho hello\n", "another program than mfgs"), ("garbage", "cannot be run")):
            with tempfile.TemporaryDirectory() as name, unittest.mock.patch("sysconfig.get_path", return_value=name):
                file = pathlib.Path(name, "mfgs")
                file.write_text(text)
                file.chmod(0o755)
                with self.assertRaisesRegex(mfgs.MfgsError, wrong):
                    mfgs.calibrate(self.model, self.train, self.val)

    def test_warnings_are_pythons(self):
        with self.assertWarnsRegex(UserWarning, "same data") as got:
            mfgs.calibrate(self.model, self.val, self.val)
        self.assertEqual(got.filename, __file__)


class PicturesTest(unittest.TestCase):
    def test_a_folder_of_pictures(self):
        images, labels = load_digits(return_X_y=True)
        w = LogisticRegression(C=0.01).fit(images / 16, labels)
        model = helper.make_model(
            helper.make_graph(
                [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("Gemm", ["flat", "w", "b"], ["logits"])],
                "pictures",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 8, 8])],
                [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
                [numpy_helper.from_array(w.coef_.T.astype(np.float32), "w"), numpy_helper.from_array(w.intercept_.astype(np.float32), "b")],
            ),
            opset_imports=[helper.make_opsetid("", 18)], ir_version=9,
        )
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for i, (image, label) in enumerate(zip(images[:600], labels)):
                at = folder / ("val" if i % 2 else "train") / str(label)
                at.mkdir(parents=True, exist_ok=True)
                Image.fromarray((image.reshape(8, 8) * 15).astype(np.uint8)).save(at / f"{i}.png")
            onnx.save(model, folder / "model.onnx")
            bundle = mfgs.calibrate(folder / "model.onnx", folder / "train", folder / "val", preprocess="unit")
            got = bundle.predict(folder / "val")
            self.assertEqual(got.probabilities.shape, (300, 10))
            pixels = np.stack([np.asarray(Image.open(p)) for p in sorted((folder / "val").glob("*/*.png"))])
            for same in (pixels[:, None] / 255, pixels[:, None], pixels):
                self.assertLessEqual(np.abs(bundle.predict_proba(same) - got.probabilities).max(), 1e-6)
            label = np.array([int(p.parent.name) for p in sorted((folder / "val").glob("*/*.png"))])
            nll = [bundle.evaluate(of).results["methods"][0]["in_domain"]["nll"] for of in (folder / "val", (pixels, label))]
            self.assertAlmostEqual(*nll, places=6)
            of_bytes = mfgs.calibrate(folder / "model.onnx", pixels, (pixels, label), preprocess="unit")
            of_floats = mfgs.calibrate(folder / "model.onnx", pixels[:, None] / 255, (pixels[:, None] / 255, label))
            a, b = of_bytes.predict_proba(pixels), of_floats.predict_proba(pixels[:, None] / 255)
            self.assertLessEqual(np.abs(a - b).max(), 1e-6)


class ClassifierTest(unittest.TestCase):
    def test_scikit_learn_accepts_it(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_estimator(mfgs.Classifier())

    def test_frames_predict_as_arrays(self):
        x, y = load_iris(return_X_y=True, as_frame=True)
        model = to_onnx(LogisticRegression().fit(x, y), x.to_numpy(np.float32)[:1], options={"zipmap": False})
        bundle = mfgs.calibrate(model, x[::2], (x[1::2], y[1::2]))
        self.assertLessEqual(np.abs(bundle.predict_proba(x) - bundle.predict_proba(x.to_numpy())).max(), 1e-6)
        self.assertIn("nll", json.dumps(bundle.evaluate((x, y)).results))

    def test_columns_may_be_numbered(self):
        x, y = load_iris(return_X_y=True)
        model = to_onnx(LogisticRegression().fit(x, y), x.astype(np.float32)[:1])
        frame = pandas.DataFrame(x)
        bundle = mfgs.calibrate(model, frame[::2], (frame[1::2], y[1::2]))
        self.assertLessEqual(np.abs(bundle.predict_proba(frame[[2, 0, 3, 1]]) - bundle.predict_proba(x)).max(), 1e-6)

    def test_labels_are_names_where_these_are_integers(self):
        x, y = load_iris(return_X_y=True)
        model = to_onnx(LogisticRegression().fit(x, y + 1), x.astype(np.float32)[:1], options={"zipmap": False})
        frame = pandas.DataFrame(x)
        some = y < 2  # as indices, these would be classes too
        for data, labels in ((x, y + 1), (frame, y + 1), (x, y + 1.0), (x[some], y[some] + 1), (frame[some], (y + 1.0)[some])):
            bundle = mfgs.calibrate(model, x, (data, labels), keep_class=True)
            self.assertEqual(bundle.classes, ["1", "2", "3"])
            error = bundle.evaluate((data, labels)).results["methods"][0]["in_domain"]["error"]
            self.assertLess(np.mean(error.get("value") if isinstance(error, dict) else error), 0.1)
        with self.assertRaisesRegex(mfgs.MfgsError, 'label "0" is not one of the 3 class names'):
            mfgs.calibrate(model, x, (x, y))

    def test_classes_have_their_names_and_order(self):
        x, y = load_iris(return_X_y=True)
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        got = mfgs.Classifier(alpha=0.2).fit(x, names)
        self.assertGreater((got.predict(x) == names).mean(), 0.9)
        self.assertEqual(got.predict_set(x).shape, (150, 3))
        self.assertEqual(got.ood_score(x).shape, (150,))

    def test_a_forest_is_calibrated_without_variances(self):
        x, y = load_digits(return_X_y=True)
        with self.assertWarnsRegex(UserWarning, "RandomForestClassifier has no linear last layer"):
            got = mfgs.Classifier(RandomForestClassifier(30, random_state=0)).fit(x[:1200], y[:1200])
        self.assertGreater((got.predict(x[1200:]) == y[1200:]).mean(), 0.85)

    def test_copies_do_not_need_the_original(self):
        x, y = load_iris(return_X_y=True)
        made = mfgs.Classifier().fit(x, y)
        want, fresh = made.predict_proba(x), pickle.dumps(made.bundle_)
        copies = [pickle.loads(pickle.dumps(made)).bundle_, copy.copy(made.bundle_), copy.deepcopy(made).bundle_, pickle.loads(fresh)]
        self.assertEqual(len({made.bundle_.path, *(one.path for one in copies)}), 5)
        del made
        gc.collect()
        for one in copies:
            self.assertTrue((one.predict_proba(x) == want).all())
        places = [one.path for one in copies]
        del copies, one
        gc.collect()
        self.assertFalse(any(place.parent.exists() for place in places))

    def test_cross_validation_in_processes_returns_estimators(self):
        x, y = load_iris(return_X_y=True)
        got = cross_validate(mfgs.Classifier(), x, y, cv=2, n_jobs=2, return_estimator=True)
        self.assertEqual(got["estimator"][0].predict(x).shape, (150,))

    def test_classes_that_are_no_indices(self):
        x, y = load_iris(return_X_y=True)
        for name, of in {
            "1 to 3": y + 1, "floats": y + 1.0, "bools": y > 0, "signs": np.where(y > 0, 1, -1), "objects": np.array(list("cab"), object)[y]
        }.items():
            with self.subTest(name):
                got = mfgs.Classifier().fit(x, of)
                self.assertGreater((got.predict(x) == of).mean(), 0.9)

    def test_a_linear_svm_is_calibrated(self):
        x, y = load_iris(return_X_y=True)
        got = mfgs.Classifier(LinearSVC()).fit(x, y)
        self.assertGreater((got.predict(x) == y).mean(), 0.85)
        with self.assertRaisesRegex(TypeError, "LinearRegression is no classifier"):
            mfgs.Classifier(LinearRegression()).fit(x, y)

    def test_a_frozen_estimator_has_its_classes(self):
        x, y = load_digits(return_X_y=True)
        fitted = LogisticRegression(C=0.01, max_iter=1000).fit(x[:900] / 16, y[:900])
        some = y[900:] != 4
        got = mfgs.Classifier(FrozenEstimator(fitted), options={"keep_class": True}).fit(x[900:][some] / 16, y[900:][some])
        self.assertEqual(got.classes_.tolist(), list(range(10)))
        self.assertTrue((got.predict(x / 16) == fitted.predict(x / 16)).all())
        with self.assertRaisesRegex(ValueError, r"does not know: \[10, 11\]"):
            mfgs.Classifier(FrozenEstimator(fitted)).fit(x[900:1000] / 16, np.where(y > 5, y + 2, y)[900:1000])

    def test_a_frozen_estimator_is_not_fitted_again(self):
        x, y = load_digits(return_X_y=True)
        fitted = LogisticRegression(C=0.01, max_iter=1000).fit(x[:900] / 16, y[:900])
        got = mfgs.Classifier(FrozenEstimator(fitted), options={"keep_class": True}).fit(x[900:] / 16, y[900:])
        self.assertEqual((got.predict(x / 16) == fitted.predict(x / 16)).mean(), 1)


class TelemetryTest(unittest.TestCase):
    def test_nothing_is_sent_unless_the_user_wants_it(self):
        code = """if True:
            import os, sys
            calls = []
            if sys.argv[1]:
                import onnxruntime
            class Watch:  # sees what the variable is when onnxruntime is imported
                def find_spec(self, name, *_):
                    if name == "onnxruntime":
                        calls.append(os.environ.get("ORT_DISABLE_TELEMETRY"))
            sys.meta_path.insert(0, Watch())
            if sys.argv[1]:
                onnxruntime.disable_telemetry_events = lambda: calls.append("off")
            import mfgs
            print(calls)
        """
        for setting, before, want in ((None, "", ["1"]), (None, "before", ["off"]), ("0", "before", []), ("0", "", ["0"])):
            env = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
            env |= {"ORT_DISABLE_TELEMETRY": setting} if setting else {}
            done = subprocess.run([sys.executable, "-c", code, before], capture_output=True, text=True, check=True, env=env)
            self.assertEqual(done.stdout.strip(), str(want))


class WithoutScikitLearnTest(unittest.TestCase):
    def test_only_the_classifier_needs_it(self):
        code = """if True:
            import sys
            sys.modules["sklearn"] = sys.modules["skl2onnx"] = None
            import mfgs
            try:
                mfgs.Classifier
            except ImportError as e:
                print(mfgs.Bundle.__name__, e)
        """
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, "^Bundle mfgs.Classifier needs scikit-learn")


@unittest.skipUnless(importlib.util.find_spec("torch"), "NOT TESTED: the notebook, which needs torch and onnxscript")
class NotebookTest(unittest.TestCase):
    def test_the_notebook_runs(self):
        """Within five minutes, as a new user would run it."""
        import nbclient
        import nbformat

        notebook = nbformat.read(HERE / "mfgs.ipynb", as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            begun = time.monotonic()
            nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
            print(f"the notebook took {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    unittest.main()
