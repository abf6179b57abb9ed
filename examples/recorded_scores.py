"""Drive the controller from recorded validation scores, without a network: read what lambda would have done.

python examples/recorded_scores.py

The "recording" is made here: scores of a model trained with the weight of these costs, whose confidence grows and whose
cost-optimal threshold drifts below T' = 0.5. The loop is open, as recorded scores cannot react to the weight: read the
cost-optimal thresholds and the direction of lambda, not its final size.
"""

import numpy as np

from adacsl import AdaCSLController, CostMatrix, find_threshold

rng = np.random.default_rng(0)
labels = (rng.random(2000) < 0.2).astype(int)
evidence = rng.normal(loc=2.0 * labels, scale=1.5)  # some information about the label

costs = CostMatrix(fp=1, fn=8)
controller = AdaCSLController(costs)
print("epoch  T_actual  factor  lambda  weight  cost at T'  cost at T_actual")
for epoch in range(1, 9):
    confidence, shift = 0.4 + 0.1 * epoch, 0.2 - 0.1 * epoch
    scores = 1 / (1 + np.exp(-confidence * (evidence + shift)))
    step = controller.step(scores, labels)
    best = find_threshold(scores, labels, costs)
    print(
        f"{epoch:5}  {best.value:8.3f}  {step.factor:6.3f}  {step.lambda_:6.3f}  {step.weight:6.4f}  "
        f"{step.cost:10.3f}  {best.cost:16.3f}"
    )

saved = controller.state_dict()  # plain JSON values
again = AdaCSLController(costs)
again.load_state_dict(saved)
print(f"restored: {again!r}, {len(again.history)} steps")
