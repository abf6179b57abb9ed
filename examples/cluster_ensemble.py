"""An ensemble whose members train on a Ray cluster; without an address, on one that is started on this machine.

python examples/cluster_ensemble.py                   # a local cluster of two workers
python examples/cluster_ensemble.py auto              # from a machine of a running cluster
python examples/cluster_ensemble.py 10.0.0.1:6379     # or by the address of its head

What is finished is kept in cluster_members/: started again after a kill, it goes on there
(docs/guide/scale/train-on-cluster.md).
"""

import sys

from adacsl import EnsembleClassifier
from adacsl.datasets.loading import load_task


def main(address: str = "local") -> None:
    task = load_task("german-credit")
    trainer = {"backend": "ray", "address": address, **({"n_jobs": 2} if address == "local" else {})}
    clf = EnsembleClassifier(
        task.costs,
        estimators=["logistic", "lightgbm", "xgboost"],
        **(trainer or {}),
        resume="cluster_members",
        random_state=0,
    )
    clf.fit(task.X, task.y)
    print(clf.leaderboard_[["member", "cost", "log_loss", "weight"]].to_string(index=False))
    print("estimated cost per row:", clf.estimated_cost_)


if __name__ == "__main__":
    main(*sys.argv[1:])
