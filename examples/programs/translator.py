"""Runs translator.tsm on random sentences, and compares what it writes with the same in NumPy.

    python translator.py [--count N]
"""

import numpy as np
from comparing import compile_here, draw, run, softmax

SIZE, WORDS, LONGEST, BEAM = 32, 40, 20, 3


def step(state, word, weights, values):
    return np.tanh(np.concatenate([values["words"][[word]], state], axis=1) @ weights)


def greedy(state, values):
    said, word = [], 0
    for _ in range(LONGEST):
        state = step(state, word, values["write"], values)
        word = int((state @ values["scores"]).argmax())
        if word == 0:
            break
        said.append(word)
    return said


def beam_search(meaning, values):
    beam = [(np.float32(0), [], meaning)]
    for _ in range(LONGEST):
        if all(said and said[-1] == 0 for _, said, _ in beam):
            break
        ways = []
        for score, said, state in beam:
            if said and said[-1] == 0:
                ways.append((score, said, state))
                continue
            after = step(state, said[-1] if said else 0, values["write"], values)
            likely = np.log(softmax(after @ values["scores"]))[0]
            ways += [(score + likely[word], [*said, int(word)], after) for word in np.argsort(-likely)[:BEAM]]
        beam = sorted(ways, key=lambda way: -way[0])[:BEAM]
    return beam[0][:2]


def weights(rng):
    values = {
        "read": 3 * draw(rng, 2 * SIZE, SIZE),
        "write": 2 * draw(rng, 2 * SIZE, SIZE),
        "words": rng.standard_normal((WORDS, SIZE)).astype(np.float32),
        "scores": 4 * draw(rng, SIZE, WORDS),
    }
    return values


def largest_difference(count, folder):
    """Of the beam's score; what is written must be the same words."""
    rng = np.random.default_rng(1)
    values = weights(rng)
    model = compile_here(folder, "translator", values)
    worst, lengths = 0, set()
    for length in rng.integers(1, 12, count):
        sentence = rng.integers(1, WORDS, length)
        meaning = np.zeros((1, SIZE), np.float32)
        for word in sentence:
            meaning = step(meaning, word, values["read"], values)
        written, best = model([np.int64(word) for word in sentence])
        assert [int(word) for word in written] == greedy(meaning, values)
        score, said = beam_search(meaning, values)
        assert [int(word) for word in best[1]] == said, ([int(word) for word in best[1]], said)
        worst = max(worst, abs(float(best[0]) - float(score)) / max(1, abs(float(score))))
        lengths.add(len(said))
    assert len(lengths) > 2, f"the data never decides when to stop: {lengths}"
    return worst


if __name__ == "__main__":
    raise SystemExit(run(__doc__, largest_difference))
