"""Table 2: accuracies on CIFAR-10 and STL-10. What the two have in common."""
import dataclasses
from typing import Callable

import matplotlib.pyplot as plt
import numpy as np

import page
import tables
from results import Results, accuracy_by_fold, display_name, mean_and_deviation, spread

COLOURS = {"gm": "#0072b2", "pm": "#d55e00", "co": "#009e73"}


@dataclasses.dataclass(frozen=True)
class Table:
    data_set: str
    command: str
    train_size: int
    folds: int  # 0: the data set has none
    paper: dict  # architecture -> accuracy in %
    others: dict  # method -> accuracy in % as printed in the paper's table 2
    classes: list
    read_test_images: Callable  # folder -> images, or None when they are not there
    beyond: dict = dataclasses.field(default_factory=dict)  # (architecture, variant) not in the paper -> what it is

    @property
    def title(self):
        return f"{self.data_set}, table 2"

    def load(self, folder):
        """None when nothing was run."""
        results = Results(folder, [*self.paper, *(architecture for architecture, _ in self.beyond)])
        return results if results.cells else None

    def accuracies(self, results, architecture):
        return accuracy_by_fold(results.of(architecture, self.train_size))

    def colours(self):
        return {name: COLOURS[name.split("-")[1]] for name in self.paper}

    def accuracy_table(self, results):
        header = ["", "accuracy in %", "paper", "difference", *(["folds"] if self.folds else [])]
        rows = []
        for name, paper in self.paper.items():
            values = self.accuracies(results, name)
            mean = mean_and_deviation(values)[0] if values else None
            kind = "better" if values and round(mean, 4) >= paper else ""
            row = [display_name(name), tables.Field(spread(values) if values else "–", kind=kind), f"{paper:.2f}",
                   f"{mean - paper:+.2f}" if values else "–"]
            rows.append(row + ([f"{len(values)} of {self.folds}"] if self.folds else []))
        return header, rows

    def explanation(self, results):
        over = "the folds" if self.folds else "seeds"
        chosen = sorted({cell["validation"] for cell in results.cells})
        return ("Accuracy in % on the test images, without data augmentation; ± is the standard deviation over "
                f"{over}, their number in brackets. Filters are learned on all training images without their labels. "
                f"C is chosen by {' or '.join(chosen)}.")

    def others_sentence(self):
        return ("Other methods, as the paper's table 2 prints them: " +
                "; ".join(f"{name}: {accuracy}" for name, accuracy in self.others.items()) + ".")

    def beyond_sentences(self, results):
        sentences = []
        for (architecture, variant), what in self.beyond.items():
            values = accuracy_by_fold(results.of(architecture, self.train_size, variant))
            if values:
                sentences.append(f"Not in the paper: {display_name(architecture)}, {what}: {spread(values)} %.")
        return sentences

    def combination_sentences(self, results):
        """What the combination takes from the images on."""
        *networks, combination = self.paper
        seed = 1
        learned = {layer["architecture"] for layer in results.layers
                   if layer["seed"] == seed and not layer.get("variant")}
        cells = [cell for cell in results.of(combination, self.train_size) if cell["seed"] == seed]
        if not cells or not learned.issuperset(networks):
            return []
        hours = results.cpu_seconds(seed, networks, [combination]) / 3600
        return [f"{display_name(combination)} of seed {seed}, with the filters of both networks: {hours:.1f} hours of "
                f"processor time, at most {max(cell['peak_mib'] for cell in cells) / 1024:.1f} GiB."]

    def markdown(self, results):
        return [self.explanation(results), "", *tables.markdown_table(*self.accuracy_table(results)), "",
                *self.combination_sentences(results), *self.beyond_sentences(results), self.others_sentence()]

    def accuracy_plot(self, results):
        """All methods, the best on top."""
        points = [(float(accuracy), 0, name, "#777777") for name, accuracy in self.others.items()]
        for name, paper in self.paper.items():
            points.append((paper, 0, f"{display_name(name)} (paper)", "#555555"))
            values = self.accuracies(results, name)
            if values:
                mean, deviation = mean_and_deviation(values)
                points.append((mean, deviation or 0, f"{display_name(name)} measured", self.colours()[name]))
        points.sort(key=lambda point: (point[0], point[2]))
        figure, axis = plt.subplots(figsize=(8, 0.3 * len(points) + 0.6))
        for height, (accuracy, deviation, name, colour) in enumerate(points):
            measured = name.endswith("measured")
            axis.errorbar(accuracy, height, xerr=deviation or None, fmt="s" if measured else "o", color=colour,
                          markersize=7 if measured else 5, capsize=3)
            axis.annotate(f"{accuracy:.2f}", (accuracy + deviation, height), xytext=(10, 0), fontsize=8,
                          textcoords="offset points", va="center", color=colour)
        axis.set_yticks(range(len(points)), [name for _, _, name, _ in points], fontsize=9)
        axis.margins(x=0.12)
        axis.grid(axis="x", alpha=0.3)
        axis.set_xlabel("accuracy, %")
        return page.svg(figure, "accuracy of all methods")

    def confusion(self, results, architecture):
        """Of all folds together."""
        cells = results.of(architecture, self.train_size)
        cells = [cell for cell in cells if cell["seed"] == cells[0]["seed"]]
        if not cells:
            return ""
        matrix = np.sum([cell["confusion"] for cell in cells], axis=0)
        together = f", {len(cells)} folds together" if len(cells) > 1 else ""
        return page.confusion_plot(display_name(architecture) + together, matrix, self.classes)

    def html(self, results, data=None, ckn=None):
        firsts = [cell for name in self.paper if (cell := results.first(name, self.train_size))]
        variants = tables.variant_table(results, accuracy=True)
        which = ", first fold" if self.folds else ""
        parts = [
            page.paragraph(self.explanation(results) + " Green: no worse than the paper."),
            tables.html_table(*self.accuracy_table(results)),
            *map(page.paragraph, self.combination_sentences(results) + self.beyond_sentences(results)),
            page.section("Beside the other methods of the paper's table", self.accuracy_plot(results)),
            page.section("Variants", variants and page.paragraph(tables.variant_note(results)) +
                         tables.html_table(*variants)),
            page.section("Learning the filters", page.objective_plot(results, self.colours())),
            page.section("Filters", page.row(page.filter_picture(ckn, results, name) for name in self.paper)),
            page.section(f"Choosing C{which}", page.validation_plot(firsts, self.colours())),
            page.section("Confusion", page.row(self.confusion(results, name) for name in self.paper)),
            page.misclassified_section(results.best(self.train_size), self.read_test_images(data) if data else None,
                                       self.classes),
            page.section("Filters", page.paragraph(tables.FILTERS_NOTE), tables.html_table(*tables.filters_table(results))),
            page.section("Time and memory", page.paragraph(tables.COST_NOTE + tables.machine_note(results)),
                         tables.html_table(*tables.cost_table(results))),
        ]
        title = f"{self.data_set}: table 2 of “Convolutional Kernel Networks”, measured"
        return page.document(title, parts, self.command)
