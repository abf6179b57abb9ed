"""The three cost matrices of the benchmark on HAM10K's seven diagnoses, fixed before anything was trained with them.

* medical: the costs ``ham10k-7`` comes with; src/adacsl/datasets/builtin.toml says what each stands for;
* balanced: inverse priors, an error about class j costs N / N_j;
* random: heavy-tailed, exp(1.5 z) with z standard normal, rounded to cents:
  ``np.random.default_rng(0).lognormal(0, 1.5, (7, 7))``, written out because numpy does not promise the same numbers
  for ever. The costs of seeds 0 to 5 were looked at (their range, and what constant decisions cost), no model; the
  first was taken. Costs from 0.03 to 18.92 follow no rule: a method has to read the matrix. Calling a nevus bcc
  happens to cost 0.03, so that "always bcc" is the best constant decision, at 0.304 per image.

The matrices are not those of earlier measurements, which were not kept: costs under them do not compare with those.
"""

from __future__ import annotations

from typing import Any

from adacsl import CostMatrix
from adacsl.datasets.builtin import dataset, own_matrix

CLASSES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")

RANDOM = (  # rows: predicted
    (0.00, 0.82, 2.61, 1.17, 0.45, 1.72, 7.07),
    (4.14, 0.00, 0.15, 0.39, 1.06, 0.03, 0.72),
    (0.15, 0.33, 0.00, 0.62, 1.85, 4.78, 0.82),
    (7.77, 0.37, 1.69, 0.00, 1.15, 0.33, 0.25),
    (0.50, 1.39, 0.22, 0.73, 0.00, 2.25, 1.38),
    (1.70, 0.38, 0.82, 3.24, 9.39, 0.00, 9.69),
    (7.53, 3.23, 1.49, 0.62, 8.91, 18.92, 0.00),
)


def ham7_matrices(y: Any) -> dict[str, CostMatrix]:
    """Return the matrices by name; ``y`` are the class numbers of all images, for the priors."""
    medical = own_matrix(dataset("ham10k-7"))
    assert isinstance(medical, CostMatrix)
    return {
        "medical": medical.aligned(CLASSES),
        "balanced": CostMatrix.balanced(y, classes=CLASSES),
        "random": CostMatrix.from_array(RANDOM, rows="predicted", classes=CLASSES),
    }
