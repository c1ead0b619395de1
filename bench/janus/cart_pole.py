"""The world that A3C and PPO act in, and the games that were played in it, which all ways of a comparison share, whichever library they are of."""

import math


class CartPole:
    """Barto, Sutton and Anderson's (1983), by Euler's steps of 20 ms."""

    def __init__(self, draw):
        self.draw = draw
        self.reset()

    def reset(self):
        self.place, self.speed, self.angle, self.turn = (float(x) for x in self.draw.uniform(-0.05, 0.05, 4))
        self.time = 0
        return self.seen()

    def seen(self):
        return [self.place, self.speed, self.angle, self.turn]

    def step(self, action):
        force, sine, cosine = (10.0 if action else -10.0), math.sin(self.angle), math.cos(self.angle)
        pushed = (force + 0.05 * self.turn**2 * sine) / 1.1
        turning = (9.8 * sine - cosine * pushed) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        moving = pushed - 0.05 * turning * cosine / 1.1
        self.place, self.speed = self.place + 0.02 * self.speed, self.speed + 0.02 * moving
        self.angle, self.turn = self.angle + 0.02 * self.turn, self.turn + 0.02 * turning
        self.time += 1
        return self.seen(), 1.0, abs(self.place) > 2.4 or abs(self.angle) > 0.21 or self.time >= 200


class Game:
    """The actions that the first player of a program has chosen; whoever comes after it acts alike, so that all do the same work: rounding, and other
    weights at first, would part their games.
    """

    _actions = {}

    def __init__(self, actions):
        self.actions, self.count = actions, 0

    @classmethod
    def of(cls, name, scale):
        return cls(cls._actions.setdefault((name, scale), []))

    def played(self, action):
        if self.count == len(self.actions):
            self.actions.append(action)
        self.count += 1
        return self.actions[self.count - 1]
