"""How to read each picture, for people who have never seen one like it."""

from __future__ import annotations

GUIDES = {
    "cost": (
        "Mean cost per case (one row of the test data) over all repetitions; the line is the 95 % interval. Where "
        "a method is not told apart from the cheapest, the difference may be chance."
    ),
    "ratio": (
        "Points: what ran. Lines: the probabilities of this view, decided anew at the Bayes threshold of each "
        "ratio, without new training. A point below its line owes that to training for its own ratio, or to a "
        "tuned threshold. Grey: the other methods."
    ),
    "groups": (
        "The threshold that would have been cheapest for each group alone (Table 1 of the AdaCSL paper). Where it "
        "differs from the rest, probabilities are off in that range, or cases are few."
    ),
    "thresholds": (
        "What each method decided at, and what the cheapest threshold, found on the test cases themselves, would "
        "have cost: a limit that no honest choice can be sure to reach."
    ),
    "lambda": (
        "Above: the cheapest threshold of the validation cases after each epoch; the loss steers it towards 0.5. "
        "Below: lambda, the weight it steers with. Bands span all seeds and folds (Figure 1a of the AdaCSL paper)."
    ),
    "history": (
        "Cost of training and validation cases after each epoch. A training cost that falls while the validation "
        "cost rises is overfitting; the cheapest validation epoch is kept (Figure 1b)."
    ),
    "optimism": (
        "The validation cases choose epoch, weight and threshold, so their cost flatters. The test cost is what "
        "counts; the distance is how much too good the promise was."
    ),
    "calibration": (
        "Of the cases that got a score of 0.3, three in ten should be positive. On the dotted line they are; "
        "larger points hold more cases."
    ),
    "brier": (
        "What trusting the scores costs, for every cost proportion at once; lower is better and the area is the "
        "Brier score. Dotted: the best constant decision."
    ),
    "decision": (
        "Net benefit of acting above a threshold, in true positives per case; higher is better. Dashed: acting on "
        "all cases; zero: on none. A method is useful where it lies above both."
    ),
    "ranks": (
        "Average rank of each method. Inside the shaded band (Nemenyi's critical difference) a method is not told "
        "apart from the first."
    ),
}
