"""Writes hub_logits.npz: the logits that the library `transformers` has for the models of hub_models.py.

    pip install torch transformers && python tests/generation/write_hub_logits.py
"""

import pathlib
import tempfile

import hub_models
import numpy
import torch
import transformers


def logits(of):
    with tempfile.TemporaryDirectory() as folder:
        hub_models.write(pathlib.Path(folder) / "model", of)
        found = transformers.AutoConfig.from_pretrained(pathlib.Path(folder) / "model")
    model = transformers.AutoModelForCausalLM.from_config(found, attn_implementation="eager").to(torch.float64).eval()
    given = {name: torch.from_numpy(array) for name, array in hub_models.weights(of).items()}
    missing, unexpected = model.load_state_dict(given, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    with torch.no_grad():
        return model(torch.tensor([hub_models.TOKENS])).logits[0].to(torch.float32).numpy()


def main():
    results = {name: logits(of) for name, of in hub_models.CONFIGS.items()}
    path = pathlib.Path(__file__).with_name("hub_logits.npz")
    numpy.savez_compressed(path, **{name: x[[0, 5, 12, -1]] for name, x in results.items()})
    print(len(results), "models,", path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
