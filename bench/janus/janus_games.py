"""A3C and PPO on a cart-pole of our own: of JANUS's programs those that act. The world is Python's; the policy is asked in each step for
probabilities, and trained on what was seen, whose length differs from episode to episode.
"""

import numpy
from cart_pole import CartPole, Game

import tensmith as ts
import tensmith.numpy as tnp
from tensmith import nn, optim

functional = nn.functional


class Policy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body, self.actor, self.critic = nn.Linear(4, width), nn.Linear(width, 2), nn.Linear(width, 1)

    def forward(self, x):
        x = tnp.tanh(self.body(x))
        return functional.log_softmax(self.actor(x), -1), self.critic(x)[:, 0]


class Player:
    """Plays a number of steps at most, or until the pole falls. The policy is asked in each step; what was played before is played again (Game)."""

    def __init__(self, name, scale, most):
        self.game = Game.of(name, scale)
        self.draw = numpy.random.RandomState(4)
        self.world, self.policy, self.most = CartPole(self.draw), Policy(16 * scale), most
        self.now = self.world.reset()
        self.optimiser = optim.Adam(self.policy.parameters(), lr=0.01)
        self.updates, self.lengths = 0, []

    def probability(self, seen):
        """Of action 1."""
        return float(tnp.exp(self.policy(tnp.asarray([seen], dtype=tnp.float32))[0])[0, 1])

    def play(self, probability):
        seen, actions, rewards, done = [], [], [], False
        while len(seen) < self.most and not done:
            action = self.game.played(int(self.draw.rand() < probability(self, self.now)))
            seen.append(self.now)
            actions.append(action)
            self.now, reward, done = self.world.step(action)
            rewards.append(reward)
        if done:
            self.lengths.append(self.world.time)
            self.now = self.world.reset()
        returns, total = [], 0.0 if done else 1.0 / (1 - 0.95)
        for reward in reversed(rewards):
            total = reward + 0.95 * total
            returns.insert(0, total)
        return tnp.asarray(seen, dtype=tnp.float32), tnp.asarray(actions), tnp.asarray(returns, dtype=tnp.float32)

    def train_a3c(self, seen, actions, returns):
        """Mnih et al.'s loss."""
        self.optimiser.zero_grad()
        with ts.record():
            logs, values = self.policy(seen)
            chosen = tnp.take_along_axis(logs, actions[:, None], axis=1)[:, 0]
            gain = returns - values
            entropy = -tnp.sum(tnp.exp(logs) * logs) / seen.shape[0]
            constant = returns - self.policy(seen)[1] * 0 - tnp.mean(returns)
            loss = -tnp.mean(chosen * constant) + 0.5 * tnp.mean(gain * gain) - 0.01 * entropy
        loss.backward()
        self.optimiser.step()
        self.updates += 1
        return loss

    def train_ppo(self, seen, actions, returns):
        """Schulman et al.'s clipped loss; epochs end early where the policy has gone far."""
        old, values = self.policy(seen)
        old = tnp.take_along_axis(old, actions[:, None], axis=1)[:, 0]
        gain = returns - values
        total = 0.0
        for epoch in range(3):
            self.optimiser.zero_grad()
            with ts.record():
                logs, values = self.policy(seen)
                ratio = tnp.exp(tnp.take_along_axis(logs, actions[:, None], axis=1)[:, 0] - old)
                clipped = tnp.clip(ratio, 0.8, 1.2)
                loss = -tnp.mean(tnp.minimum(ratio * gain, clipped * gain)) + 0.5 * tnp.mean((returns - values) ** 2)
            if float(tnp.mean((ratio - 1) ** 2)) > 0.05:
                break
            loss.backward()
            self.optimiser.step()
            total = total + float(loss)
        self.updates += 1
        return total


def player(name, train, most):
    def make(convert, scale):
        program = Player(name, scale, most)
        step, probability = convert(train), convert(Player.probability)
        return step, lambda number: step(program, *program.play(probability))

    return make


PROGRAMS = {"A3C": player("A3C", Player.train_a3c, 8), "PPO": player("PPO", Player.train_ppo, 12)}
