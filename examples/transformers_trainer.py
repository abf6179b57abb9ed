"""A Hugging Face Trainer made cost-sensitive; a tiny random model, so that nothing is downloaded.

python examples/transformers_trainer.py
"""

import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from adacsl import CostMatrix
from adacsl.integrations.transformers import AdaCSLCallback

torch.manual_seed(0)
x = torch.randint(5, 100, (1200, 12))
y = ((x == 7).any(1) | (torch.rand(1200) < 0.05)).long()  # texts with the seventh word, and a few others
rows = [{"input_ids": a, "labels": b} for a, b in zip(x, y, strict=True)]
sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = BertForSequenceClassification(BertConfig(vocab_size=100, max_position_embeddings=12, num_labels=2, **sizes))

cost = AdaCSLCallback(CostMatrix(fp=1, fn=8))  # 1
args = TrainingArguments(
    tempfile.mkdtemp(), num_train_epochs=4, learning_rate=3e-3, eval_strategy="epoch", save_strategy="epoch",
    metric_for_best_model="val_cost", greater_is_better=False, load_best_model_at_end=True, report_to=[], use_cpu=True,
)  # fmt: skip
trainer = Trainer(
    model, args, train_dataset=rows[:800], eval_dataset=rows[800:],
    compute_loss_func=cost.loss, compute_metrics=cost.metrics, callbacks=[cost],  # 2
)  # fmt: skip
trainer.train()
print([(step.cost, step.lambda_) for step in cost.controller.history])
print(cost.decide(trainer.predict(rows[800:810]).predictions))  # decisions
