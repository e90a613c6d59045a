"""The reports of server/experiments/report, of small results folders made here."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77  # CMakeLists.txt tells ctest
REPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "server", "experiments", "report")

missing = [name for name in ("matplotlib", "numpy", "scipy") if importlib.util.find_spec(name) is None]
if missing:
    line = "#" * 80
    print(f"{line}\n# SKIPPED, nothing was tested: python3-{', python3-'.join(missing)} not installed\n{line}")
    sys.exit(SKIPPED)

sys.path.insert(0, REPORT)
import numpy as np  # noqa: E402

import cifar10  # noqa: E402
import gabor  # noqa: E402
import markdown  # noqa: E402
import mnist  # noqa: E402
import page  # noqa: E402
import results as results_module  # noqa: E402
import stl10  # noqa: E402
import tables  # noqa: E402

MACHINE = {"threads": 2, "cpu": "A & B <CPU>", "simd": "AVX2", "program_version": "0.1.0"}
TEST_COUNT = 1000


def cell(architecture, train_size, errors, seed=1, **more):
    """A cell of 1,000 test images as ckn writes it; all errors are of class 3 taken for class 5."""
    confusion = [[100 if i == j else 0 for j in range(10)] for i in range(10)]
    confusion[3][3] -= errors
    confusion[3][5] += errors
    return {"architecture": architecture, "train_size": train_size, "seed": seed, "features": 800,
            "test_error_percent": 100 * errors / TEST_COUNT, "test_errors": errors, "test_count": TEST_COUNT,
            "svm_c": 4.0, "validation": "5-fold cross-validation", "validation_error_percent": 5.0, "seconds": 12.3,
            "cpu_seconds": 23.4, "peak_mib": 345.6, **MACHINE, "data_sha256": "00",
            "validation_curve": [[2.0, 7.0], [4.0, 5.0], [8.0, 6.0]], "confusion": confusion,
            "misclassified": [[i, 3, 5] for i in range(errors)], **more}


def layers(architecture, seed=1, **more):
    layer = {"layer": 2, "filters": 50, "sigma": 0.9, "dead": 0, "pairs": 100, "iterations": 3, "objective_start": 0.1,
             "objective": 0.01, "held_out_objective": 0.02, "curve": [[1, 0.1], [2, 0.05], [3, 0.01]]}
    return {"architecture": architecture, "seed": seed, "learned_on": 60000, "parameters": 5400, "seconds": 100.2,
            "cpu_seconds": 150.6, **MACHINE, "layers": [layer], **more}


def write_json(path, contents):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(contents, file)


def gabor_patch(noise=0.0):
    y, x = np.mgrid[0:12, 0:12].astype(float)
    patch = gabor.gabor([1.0, 5.2, 6.1, 0.6, np.log(2.0), np.log(3.0), 0.2, 0.4], x, y)
    return patch + noise * np.random.default_rng(1).normal(size=patch.shape)


def run_report(*arguments):
    return subprocess.run([sys.executable, "-B", REPORT, *arguments], capture_output=True, text=True)


class ReportTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.root = os.path.join(work.name, "results")

    def write(self, experiment, cells, learned=()):
        """Returns the experiment's folder."""
        folder = os.path.join(self.root, experiment)
        os.makedirs(folder, exist_ok=True)
        for contents in cells:
            write_json(os.path.join(folder, "cells", results_module.cell_name(contents) + ".json"), contents)
        for contents in learned:
            variant = f"-{contents['variant']}" if "variant" in contents else ""
            name = f"{contents['architecture']}{variant}-seed{contents['seed']}.json"
            write_json(os.path.join(folder, "layers", name), contents)
        return folder

    def write_figure3(self, filters):
        folder = os.path.join(self.root, "gabor")
        write_json(os.path.join(folder, "figure3.json"),
                   {"filters": len(filters), "patch_size": 12, "photographs": 10,
                    "components": 30, "min_contrast": 0.1, "pairs": 300000, "seed": 1, "sigma": 0.9, "iterations": 3, "objective_start": 0.1, "objective": 0.01,
                    "held_out_objective": 0.02, "seconds": 5.0, "cpu_seconds": 9.0, **MACHINE,
                    "eta": [1.0] * len(filters), "curve": [[1, 0.1], [2, 0.01]]})
        np.save(os.path.join(folder, "filters.npy"), np.array(filters, np.float32))
        return folder


class BarTest(unittest.TestCase):
    def test_small_errors_may_be_two_tenths_worse(self):
        for paper in (0.39, 0.58, 0.7, 1.1):  # 0.7 + 0.2 < 0.9 in binary
            self.assertTrue(results_module.no_worse(paper + 0.2, paper), paper)
            self.assertTrue(results_module.no_worse(round(paper + 0.2, 2), paper), paper)
            self.assertFalse(results_module.no_worse(paper + 0.21, paper), paper)

    def test_large_errors_may_be_15_percent_worse(self):
        self.assertTrue(results_module.no_worse(4.00 * 1.15, 4.00))
        self.assertFalse(results_module.no_worse(4.00 * 1.15 + 0.001, 4.00))


class MnistTest(ReportTest):
    def load(self, cells, learned=()):
        return mnist.load(self.write("mnist", cells, learned))

    def test_nothing_was_run(self):
        self.assertIsNone(self.load([]))
        self.assertIsNone(mnist.load(os.path.join(self.root, "missing")))

    def test_one_seed(self):
        row = mnist.error_table(self.load([cell("ckn-gm1", 300, 50)]))[1][0]
        self.assertEqual(row[1], tables.Field("5.00", "4.39", "+0.61", "near"))  # at most 5.05
        self.assertEqual(row[2], tables.Field("–", "4.24"))

    def test_mean_and_deviation_of_seeds(self):
        row = mnist.error_table(self.load([cell("ckn-pm2", 300, 40 + seed, seed) for seed in (1, 2, 3)]))[1][0]
        self.assertEqual(row[4], tables.Field("4.20 ± 0.10 (3)", "4.15", "+0.05", "near"))

    def test_kinds(self):
        rows = mnist.error_table(self.load([cell("ckn-gm1", 10000, 11), cell("ckn-gm2", 10000, 11)]))[1]
        self.assertEqual([field.kind for field in rows[4][1:]], ["better", "worse", "", ""])

    def test_summary_counts_what_is_there(self):
        text = " ".join(mnist.summary(self.load([cell("ckn-gm1", 300, 50), cell("ckn-gm2", 60000, 7, seed=2)])))
        self.assertIn("1 of 2 cells are no worse", text)
        self.assertIn("30 are still to be done", text)
        self.assertIn("Best on 60,000 images: 0.70 % (CKN-GM2, seed 2;", text)

    def test_whole_table(self):
        results = self.load([cell(name, size, 1) for name in mnist.ARCHITECTURES for size in mnist.SIZES])
        sentence = "32 of 32 cells are no worse than the paper's figure + 0.2 points or + 15 %, whichever is larger."
        self.assertIn(sentence, mnist.markdown(results))

    def test_cost_of_the_whole_table(self):
        cells = [cell(name, size, 1, cpu_seconds=360) for name in mnist.ARCHITECTURES for size in mnist.SIZES]
        others = [cell("ckn-gm1", 60000, 1, variant="sgd"), cell("ckn-gm1", 60000, 1, seed=2)]
        learned = [layers(name, cpu_seconds=900) for name in mnist.ARCHITECTURES]
        sentence = "filters and cells of seed 1: 4.2 hours of processor time"
        self.assertNotIn(sentence, " ".join(mnist.summary(self.load(cells[1:] + others, learned))))
        self.assertIn(sentence, " ".join(mnist.summary(self.load(cells + others, learned))))

    def test_combination_stands_beside_the_table(self):
        cells = [cell("ckn-gm1", 60000, 6), cell("ckn-co-mnist", 60000, 4), cell("ckn-co-mnist", 60000, 6, seed=2)]
        results = self.load(cells)
        text = " ".join(mnist.summary(results))
        self.assertIn("CKN-CO, on 60,000 images: 0.50 ± 0.14 (2) %", text)
        self.assertIn("Best on 60,000 images: 0.40 % (CKN-CO, seed 1;", text)
        self.assertIn("1 of 1 cells are no worse", text)
        self.assertIn("CKN-CO, 4 errors", mnist.html(results))

    def test_variants_stand_beside_the_papers_method(self):
        results = self.load([cell("ckn-gm1", 300, 50), cell("ckn-gm1", 300, 60, seed=2),
                             cell("ckn-gm1", 300, 70, variant="nystrom"), cell("ckn-gm2", 300, 44, variant="nystrom")])
        self.assertEqual(mnist.error_table(results)[1][0][1].text, "5.50 ± 0.71 (2)")
        header, rows = tables.variant_table(results, accuracy=False)
        self.assertEqual(rows[0], ["CKN-GM1, 300 images", "nystrom", "7.00", "5.50 ± 0.71 (2)", "+1.50"])
        self.assertEqual(rows[1], ["CKN-GM2, 300 images", "nystrom", "4.40", "–", "–"])
        self.assertEqual(len(header), len(rows[0]))
        self.assertIn("Variants", mnist.html(results))

    def test_joined_variants_are_explained_part_by_part(self):
        results = self.load([cell("ckn-pm1", 300, 50, variant="nystrom+whitened"), cell("ckn-pm1", 300, 50, variant="sgd")])
        note = tables.variant_note(results)
        self.assertEqual([part.split(":")[0] for part in note.split("; ")], ["sgd", "nystrom", "whitened"])

    def test_no_variants_no_section(self):
        results = self.load([cell("ckn-gm1", 300, 50)])
        self.assertIsNone(tables.variant_table(results, accuracy=False))
        self.assertNotIn("Variants", mnist.html(results))

    def test_best_is_not_a_variant(self):
        results = self.load([cell("ckn-gm1", 60000, 9), cell("ckn-gm1", 60000, 1, variant="nystrom")])
        self.assertEqual(results.best(60000)["test_errors"], 9)

    def test_html_escapes_text(self):
        text = mnist.html(self.load([cell("ckn-gm1", 300, 50)], [layers("ckn-gm1")]))
        self.assertIn("A &amp; B &lt;CPU&gt;", text)
        self.assertNotIn("<CPU>", text)

    def test_html_needs_no_other_file(self):
        text = mnist.html(self.load([cell("ckn-gm1", 60000, 6)], [layers("ckn-gm1")]))
        for word in ("src=\"http", "href=\"http", "<link", "<script", "url(http", "@import"):
            self.assertNotIn(word, text)

    def test_full_size_has_confusion_and_choice_of_c(self):
        text = mnist.html(self.load([cell("ckn-gm1", 60000, 6)], [layers("ckn-gm1")]))
        for word in ("CKN-GM1, 6 errors", "Choosing C", "objective of problem (4)"):
            self.assertIn(word, text)
        self.assertNotIn("gets wrong", text)  # no data were given

    def test_layers_without_a_curve(self):
        learned = layers("ckn-gm1")
        learned["layers"][0]["curve"] = []
        other = layers("ckn-gm1", variant="nystrom")
        results = self.load([cell("ckn-gm1", 300, 50, variant="nystrom")], [learned, other])
        self.assertNotIn("Learning the filters", mnist.html(results))

    def write_idx(self, count):
        os.makedirs(self.root, exist_ok=True)
        pixels = np.random.default_rng(1).integers(0, 256, count * 28 * 28, np.uint8)
        header = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (count, 28, 28))
        with open(os.path.join(self.root, "t10k-images-idx3-ubyte"), "wb") as file:
            file.write(header + pixels.tobytes())

    def test_misclassified_pictures(self):
        results = self.load([cell("ckn-gm1", 60000, 6)])
        self.write_idx(TEST_COUNT)
        text = mnist.html(results, data=self.root)
        self.assertIn("All 6 test images that CKN-GM1 (seed 1) gets wrong", text)
        self.assertEqual(text.count("3 → 5"), 6)

    def test_pictures_of_another_test_set_are_not_shown(self):
        results = self.load([cell("ckn-gm1", 60000, 6)])
        self.write_idx(TEST_COUNT - 1)
        self.assertNotIn("gets wrong", mnist.html(results, data=self.root))

    def test_many_misclassified_pictures_are_cut(self):
        results = self.load([cell("ckn-gm1", 60000, page.MAX_PICTURES + 1)])
        self.assertIn(f"The first {page.MAX_PICTURES} of {page.MAX_PICTURES + 1} test images",
                      page.misclassified_section(results.best(60000), np.zeros((TEST_COUNT, 8, 8)), mnist.DIGITS))


class CostTest(ReportTest):
    def test_filters_and_cells(self):
        folder = self.write("mnist", [cell("ckn-gm1", 1000, 50)], [layers("ckn-gm1")])
        header, rows = tables.cost_table(mnist.load(folder))
        self.assertEqual(header, ["run", "test error", "C", "seconds", "CPU seconds", "peak MiB"])
        self.assertEqual(rows, [["CKN-GM1, seed 1: filters, 3 iterations on 100 pairs", "", "", "100", "151", ""],
                                ["CKN-GM1, 1K images, seed 1", "5.00 %", "2²", "12", "23", "346"]])

    def test_filters_are_told_with_their_errors(self):
        in_components = layers("ckn-pm1")
        in_components["layers"][0]["principal_components"] = 64
        folder = self.write("mnist", [cell("ckn-gm1", 1000, 50)],
                            [layers("ckn-gm1"), in_components, layers("ckn-pm2", variant="nystrom+whitened")])
        results = mnist.load(folder)
        header, rows = tables.filters_table(results)
        self.assertEqual(header, ["filters", "dead", "sigma", "pairs", "components", "iterations", "error",
                                  "on unseen pairs"])
        self.assertEqual(rows[0], ["CKN-GM1, seed 1: layer 2", "0 of 50", "0.900", "100", "all", "3", "0.01", "0.02"])
        self.assertEqual([row[2:5] for row in rows[1:]], [["0.900", "100", "64"], ["0.636", "100", "all"]])
        self.assertIn("CKN-PM1, seed 1: filters, 3 iterations on 100 pairs in 64 components",
                      [row[0] for row in tables.cost_table(results)[1]])

    def test_order_is_the_papers(self):
        folder = self.write("cifar10", [cell(name, 50000, 5) for name in cifar10.TABLE.paper])
        names = [row[0] for row in tables.cost_table(cifar10.load(folder))[1]]
        self.assertEqual(names, [f"CKN-{name}, 50K images, seed 1" for name in ("GM", "PM", "CO")])

    def test_several_machines_are_told_apart(self):
        folder = self.write("mnist", [cell("ckn-gm1", 300, 50), cell("ckn-gm1", 1000, 50, threads=64)])
        results = mnist.load(folder)
        header, rows = tables.cost_table(results)
        self.assertEqual([header[-1], rows[0][-1], rows[1][-1]], ["machine", "1", "2"])
        self.assertIn("2: A & B <CPU>, 64 threads", tables.machine_note(results))

    def test_powers_of_two(self):
        self.assertEqual([tables.power_of_two(value) for value in (2**-15, 1.0, 256.0)], ["2⁻¹⁵", "2⁰", "2⁸"])

    def test_html_and_markdown_have_the_same_fields(self):
        table = ["a", "b"], [["<x>", "1|2"], ["y", tables.Field("3", "4", "-1", "better")]]
        self.assertEqual(tables.html_table(*table),
                         "<table><tr><th>a</th><th>b</th></tr>\n<tr><th>&lt;x&gt;</th><td>1|2</td></tr>\n"
                         "<tr><th>y</th><td class=better>3<small>paper 4, -1</small></td></tr></table>")
        self.assertEqual(tables.markdown_table(*table),
                         ["| a | b |", "|---|---|", "| <x> | 1\\|2 |", "| y | **3**; 4; -1 |"])


class Table2Test(ReportTest):
    def test_cifar10_accuracy(self):
        folder = self.write("cifar10", [cell("ckn-gm-cifar10", 50000, 250), cell("ckn-co-cifar10", 50000, 179)])
        results = cifar10.load(folder)
        rows = cifar10.TABLE.accuracy_table(results)[1]
        self.assertEqual(rows[0], ["CKN-GM", tables.Field("75.00", kind="better"), "74.84", "+0.16"])
        self.assertEqual(rows[1], ["CKN-PM", tables.Field("–"), "78.30", "–"])
        self.assertEqual(rows[2], ["CKN-CO", tables.Field("82.10"), "82.18", "-0.08"])
        self.assertEqual(cifar10.TABLE.beyond_sentences(results), [])
        text = cifar10.html(results)
        self.assertIn("CKN-GM measured", text)
        self.assertIn("automobile", text)

    def test_cost_of_the_combination(self):
        cells = [cell("ckn-gm-cifar10", 50000, 250), cell("ckn-co-cifar10", 50000, 179, cpu_seconds=3600, peak_mib=8192)]
        one, other = layers("ckn-gm-cifar10", cpu_seconds=1800), layers("ckn-pm-cifar10", cpu_seconds=1800)
        text = cifar10.markdown(cifar10.load(self.write("cifar10", cells, [one])))
        self.assertNotIn("hours of processor time", " ".join(text))
        text = cifar10.markdown(cifar10.load(self.write("cifar10", cells, [one, other])))
        self.assertIn("CKN-CO of seed 1, with the filters of both networks: 2.0 hours of processor time, at most "
                      "8.0 GiB.", text)

    def test_larger_network_stands_beside_the_table(self):
        folder = self.write("cifar10", [cell("ckn-gm-cifar10", 50000, 250),
                                        cell("ckn-wide-cifar10", 50000, 150, variant="nystrom")])
        results = cifar10.load(folder)
        text = " ".join(cifar10.markdown(results))
        self.assertIn("Not in the paper: CKN-WIDE, a combination", text)
        self.assertIn(": 85.00 %.", text)
        self.assertIn("Not in the paper: CKN-WIDE", cifar10.html(results))

    def test_stl10_is_the_mean_over_folds(self):
        folds = [cell("ckn-gm-stl10", 1000, errors, fold=fold) for fold, errors in enumerate((390, 400, 410))]
        results = stl10.load(self.write("stl10", folds, [layers("ckn-gm-stl10")]))
        row = stl10.TABLE.accuracy_table(results)[1][0]
        self.assertEqual(row, ["CKN-GM", tables.Field("60.00 ± 1.00 (3)"), "60.04", "-0.04", "3 of 10"])
        self.assertIn("CKN-GM, fold 2, seed 1", [line[0] for line in tables.cost_table(results)[1]])
        self.assertIn("3 folds together", stl10.html(results))

    def test_seeds_of_a_fold_are_one_value(self):
        cells = [cell("ckn-gm-stl10", 1000, errors, seed, fold=fold)
                 for fold, seed, errors in ((0, 1, 380), (0, 2, 400), (1, 1, 410), (1, 2, 410))]
        row = stl10.TABLE.accuracy_table(stl10.load(self.write("stl10", cells)))[1][0]
        self.assertEqual(row[1].text, "60.00 ± 1.41 (2)")

    def test_variant_of_folds(self):
        cells = [cell("ckn-pm-stl10", 1000, 400, fold=0), cell("ckn-pm-stl10", 1000, 390, fold=0, variant="nystrom")]
        rows = tables.variant_table(stl10.load(self.write("stl10", cells)), accuracy=True)[1]
        self.assertEqual(rows, [["CKN-PM, 1K images", "nystrom", "61.00", "60.00", "+1.00"]])

    def test_cifar10_pixels(self):
        record = np.zeros(1 + 3 * 32 * 32, np.uint8)
        record[1 + 32 * 32 + 5 * 32 + 7] = 9  # green, row 5, column 7
        os.makedirs(os.path.join(self.root, "cifar-10-batches-bin"))
        record.tofile(os.path.join(self.root, "cifar-10-batches-bin", "test_batch.bin"))
        images = cifar10.read_test_images(self.root)
        self.assertEqual([index.tolist() for index in np.nonzero(images)], [[0], [5], [7], [1]])

    def test_stl10_pixels(self):
        image = np.zeros(3 * 96 * 96, np.uint8)
        image[2 * 96 * 96 + 7 * 96 + 5] = 9  # blue, column 7, row 5
        os.makedirs(self.root)
        image.tofile(os.path.join(self.root, "test_X.bin"))
        images = stl10.read_test_images(self.root)
        self.assertEqual([index.tolist() for index in np.nonzero(images)], [[0], [5], [7], [2]])


class GaborTest(ReportTest):
    def test_recognises_a_gabor_function(self):
        self.assertGreater(gabor.fit(gabor_patch()), 0.99)
        self.assertGreater(gabor.fit(gabor_patch(noise=0.1)), gabor.EXPLAINED)

    def test_rejects_noise(self):
        self.assertLess(gabor.fit(np.random.default_rng(1).normal(size=(12, 12))), 0.5)

    def test_rejects_a_single_pixel(self):
        for place in ((5, 6), (0, 0), (11, 4)):
            patch = np.zeros((12, 12))
            patch[place] = 1
            self.assertLess(gabor.fit(patch), gabor.EXPLAINED, place)

    def test_constant_patch(self):
        self.assertEqual(gabor.fit(np.ones((12, 12))), 0)

    def test_counts_filters(self):
        noise = np.random.default_rng(1).normal(size=(12, 12))
        results = gabor.load(self.write_figure3([gabor_patch(), noise]))
        self.assertTrue(results.sentence().startswith("1 of 2 filters are Gabor-like"))
        self.assertIn("data:image/png;base64,", gabor.html(results))

    def test_fits_are_kept_until_the_filters_change(self):
        folder = self.write_figure3([gabor_patch()])
        self.assertEqual(gabor.load(folder).count(), 1)
        path = os.path.join(folder, "gabor.json")
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        write_json(path, {**kept, "explained": [0.5]})
        self.assertEqual(gabor.load(folder).count(), 0)
        self.write_figure3([gabor_patch(noise=0.05)])
        self.assertEqual(gabor.load(folder).count(), 1)

    def test_unfinished_run(self):
        folder = self.write_figure3([gabor_patch()])
        os.remove(os.path.join(folder, "figure3.json"))
        self.assertIsNone(gabor.load(folder))


class WholeReportTest(ReportTest):
    def write_all(self):
        cells = [cell("ckn-gm1", 60000, 6), cell("ckn-gm1", 60000, 7, variant="nystrom")]
        self.write("mnist", cells, [layers("ckn-gm1")])
        self.write("cifar10", [cell("ckn-gm-cifar10", 50000, 250)], [layers("ckn-gm-cifar10")])
        self.write_figure3([gabor_patch()])

    def test_markdown_has_a_section_an_experiment_that_was_run(self):
        self.write_all()
        text = markdown.text(self.root, os.path.join(self.root, "RESULTS.md"))
        titles = [line for line in text.splitlines() if line.startswith("## ")]
        self.assertEqual(titles, ["## MNIST, table 1", "## CIFAR-10, table 2", "## Gabor-like filters, figure 3"])
        self.assertEqual(text.count("### Variants"), 1)
        self.assertIn("[report with plots](cifar10/report.html)", text)

    def test_same_results_same_bytes(self):
        self.write_all()
        for experiment in ("mnist", "cifar10", "gabor"):
            with self.subTest(experiment):
                outputs = []
                for _ in range(2):
                    path = os.path.join(self.root, "RESULTS.md")
                    done = run_report(experiment, self.root, "--markdown", path)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    files = path, os.path.join(self.root, experiment, "report.html")
                    outputs.append([pathlib.Path(file).read_bytes() for file in files])
                self.assertEqual(outputs[0], outputs[1])
                self.assertNotIn(b"dc:date", outputs[0][1])

    def test_nothing_was_run(self):
        done = run_report("stl10", self.root, "--markdown", os.path.join(self.root, "RESULTS.md"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("got no results", done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.root, "RESULTS.md")))

    def test_help_and_wrong_use(self):
        self.assertIn("EXPERIMENT RESULTS_ROOT", run_report("--help").stdout)
        self.assertEqual(run_report("svhn", self.root, "--markdown", "x").returncode, 2)


if __name__ == "__main__":
    unittest.main()
