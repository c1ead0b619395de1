"""Programs of training as people write them, around a module that torch.compile made: losses and parameters are eager's.

Breaks if a step reads what an earlier one computed (parameters that are changed in place, averaged, swapped or frozen, modes, rates, sizes), or if a
gradient that a program takes by hand is another. Before batch normalisation no layer has a bias: its gradient is a rounding, which Adam's rules make a step of.
"""

import copy

import pytest

torch = pytest.importorskip("torch", minversion="2.5")
ts = pytest.importorskip("tensmith", reason="the Python package is not built")

from torch import nn  # noqa: E402

import tensmith.torch  # noqa: E402

F = nn.functional


def mlp(*widths):
    layers = [part for a, b in zip(widths, widths[1:]) for part in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*layers[:-1])


def sharpness_aware(wrap):
    """Each step's gradient is taken where the loss is worst nearby."""
    net, x, y = mlp(6, 8, 3), torch.randn(10, 6), torch.randint(0, 3, (10,))
    call, optimiser = wrap(net), torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    for _ in range(3):
        F.cross_entropy(call(x), y).backward()
        with torch.no_grad():
            length = torch.stack([p.grad.norm() for p in net.parameters()]).norm()
            moves = [0.05 * p.grad / (length + 1e-12) for p in net.parameters()]
            for p, move in zip(net.parameters(), moves):
                p.add_(move)
        optimiser.zero_grad()
        loss = F.cross_entropy(call(x), y)
        loss.backward()
        with torch.no_grad():
            for p, move in zip(net.parameters(), moves):
                p.sub_(move)
        optimiser.step()
        optimiser.zero_grad()
        yield loss
    yield from net.parameters()


def searches_along_lines(wrap):
    net, x, y = mlp(4, 6, 1), torch.randn(12, 4), torch.randn(12, 1)
    call, optimiser = wrap(net), torch.optim.LBFGS(net.parameters(), max_iter=5, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        loss = F.mse_loss(call(x), y)
        loss.backward()
        return loss

    for _ in range(2):
        yield optimiser.step(closure)
    yield F.mse_loss(call(x), y)


def averaged_weights(wrap):
    """Of an average that follows the parameters, what a compiled copy of it gives."""
    net = nn.Sequential(nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6), nn.Linear(6, 2))
    average = torch.optim.swa_utils.AveragedModel(net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5), use_buffers=True)
    call, mean, optimiser = wrap(net), wrap(average), torch.optim.Adam(net.parameters(), 0.05)
    x = torch.randn(8, 4)
    for _ in range(3):
        optimiser.zero_grad()
        call(x).square().mean().backward()
        optimiser.step()
        average.update_parameters(net)
        average.eval()
        with torch.no_grad():
            yield mean(x)


def scaled_halves(wrap):
    net, x = mlp(8, 8, 2), torch.randn(6, 8)
    call, optimiser, scaler = wrap(net), torch.optim.SGD(net.parameters(), 0.1), torch.amp.GradScaler("cpu", init_scale=64.0)
    for _ in range(3):
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = call(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimiser)
        scaler.update()
        yield loss


def parts_of_batches(wrap):
    """Gradients of four parts add up, of which the last is smaller."""
    net, data = mlp(5, 7, 3), torch.utils.data.TensorDataset(torch.randn(22, 5), torch.randint(0, 3, (22,)))
    call, optimiser = wrap(net), torch.optim.AdamW(net.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=4)
    for _ in range(3):
        optimiser.zero_grad(set_to_none=False)
        for x, y in torch.utils.data.DataLoader(data, batch_size=6):
            loss = F.cross_entropy(call(x), y, reduction="sum") / 22
            loss.backward()
            yield loss
        optimiser.step()
        schedule.step()
    yield from net.parameters()


def layers_are_frozen_and_freed(wrap):
    net, x = mlp(4, 5, 5, 2), torch.randn(6, 4)
    call = wrap(net)
    for frozen in ({0, 2}, {0}, set()):
        for i, layer in enumerate(net):
            layer.requires_grad_(i not in frozen)
        optimiser = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1)
        for p in net.parameters():
            p.grad = None
        call(x).square().sum().backward()
        optimiser.step()
        yield from (p.grad for p in net.parameters() if p.grad is not None)
        yield torch.tensor([p.grad is None for p in net.parameters()])


def texts_of_different_length(wrap):
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.layer, self.out = nn.Embedding(9, 6, padding_idx=0), nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 3)

        def forward(self, words):
            return self.out(self.layer(self.words(words))[0])

    net = Tagger()
    call, optimiser = wrap(net), torch.optim.Adam(net.parameters(), 0.01)
    for batch, length in ((3, 3), (2, 4), (1, 2)):
        words = torch.randint(0, 9, (batch, length))
        loss = F.cross_entropy(call(words).flatten(0, 1), torch.where(words == 0, -100, words % 3).flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield loss


def states_are_carried_on(wrap):
    """Gradients end where a piece of the text begins."""
    net = nn.GRU(4, 5, batch_first=True)
    call, optimiser, state, x = wrap(net), torch.optim.SGD(net.parameters(), 0.1), torch.zeros(1, 2, 5), torch.randn(2, 12, 4)
    for piece in x.split(4, 1):
        y, state = call(piece, state)
        optimiser.zero_grad()
        y.square().mean().backward()
        optimiser.step()
        state = state.detach()
        yield state


def two_networks_against_each_other(wrap):
    maker, judge = mlp(3, 6, 4), nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 6)), nn.LeakyReLU(0.2), nn.Linear(6, 1))
    make, judged = wrap(maker), wrap(judge)
    of_maker, of_judge = (torch.optim.Adam(net.parameters(), 0.01, betas=(0.5, 0.9)) for net in (maker, judge))
    for _ in range(3):
        real, z = torch.randn(5, 4), torch.randn(5, 3)
        made = make(z)
        loss = F.softplus(-judged(real)).mean() + F.softplus(judged(made.detach())).mean()
        of_judge.zero_grad()
        loss.backward()
        of_judge.step()
        yield loss
        loss = F.softplus(-judged(make(z))).mean()
        of_maker.zero_grad()
        loss.backward()
        of_maker.step()
        yield loss


def penalties_on_gradients(wrap):
    """The gradient of a gradient is taken within what is compiled."""
    net = mlp(4, 6, 1)

    def loss_of(x):
        x = x.requires_grad_()
        y = net(x)
        gradient, = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.mean() + ((gradient.norm(dim=1) - 1) ** 2).mean()

    call, optimiser = wrap(loss_of), torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        loss = call(torch.randn(5, 4))
        loss.backward()
        optimiser.step()
        yield loss


def learning_to_learn(wrap):
    net = mlp(3, 5, 1)
    parameters = {name: p.detach().clone() for name, p in net.named_parameters()}

    def loss_of(parameters, x, y):
        return F.mse_loss(torch.func.functional_call(net, parameters, (x,)), y)

    def after_a_step(parameters, x, y):
        gradients = torch.func.grad(loss_of)(parameters, x, y)
        return loss_of({name: p - 0.1 * gradients[name] for name, p in parameters.items()}, x, y)

    step = wrap(lambda parameters, x, y: torch.func.grad_and_value(lambda p: torch.vmap(after_a_step, (None, 0, 0))(p, x, y).mean())(parameters))
    for _ in range(2):
        gradients, loss = step(parameters, torch.randn(4, 6, 3), torch.randn(4, 6, 1))
        parameters = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}
        yield loss
    yield from parameters.values()


def gradients_of_each_sample(wrap):
    net, x, y = mlp(4, 5, 3), torch.randn(6, 4), torch.randint(0, 3, (6,))
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss_of(parameters, x, y):
        return F.cross_entropy(torch.func.functional_call(net, parameters, (x[None],)), y[None])

    gradients = wrap(lambda x, y: torch.vmap(torch.func.grad(loss_of), (None, 0, 0))(parameters, x, y))(x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in gradients.values()]).norm(dim=0)
    yield norms
    yield from ((g * (1 / norms).clamp(max=1).view(-1, *[1] * (g.dim() - 1))).mean(0) for g in gradients.values())


def taught_by_another(wrap):
    teacher, student = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 3)).eval(), mlp(4, 4, 3)
    teach, learn, optimiser = wrap(teacher), wrap(student), torch.optim.RMSprop(student.parameters(), 0.01)
    for share in (0.2, 0.5, 0.9):
        x, y = torch.randn(7, 4), torch.randint(0, 3, (7,))
        with torch.inference_mode():
            told = teach(x)
        scores = learn(x)
        loss = share * F.kl_div((scores / 2).log_softmax(1), (told.clone() / 2).softmax(1), reduction="batchmean") * 4 + (1 - share) * F.cross_entropy(scores, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield loss


def training_and_evaluation_alternate(wrap):
    net = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
    call, optimiser, x = wrap(net), torch.optim.Adagrad(net.parameters(), 0.1), torch.randn(9, 4)
    for _ in range(3):
        net.train()
        optimiser.zero_grad()
        loss = call(x).square().mean()
        loss.backward()
        optimiser.step()
        net.eval()
        with torch.no_grad():
            yield call(x)
        yield loss
    yield from net.buffers()


def computed_again(wrap):
    class Net(nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.blocks, self.reentrant = nn.ModuleList([nn.Sequential(nn.Linear(5, 9), nn.GELU(), nn.Dropout(0.2), nn.Linear(9, 5)) for _ in range(3)]), reentrant

        def forward(self, x):
            for block in self.blocks:
                x = x + torch.utils.checkpoint.checkpoint(block, x, use_reentrant=self.reentrant)
            return x

    for reentrant in (False, True):
        torch.manual_seed(5)
        net = Net(reentrant)
        x = torch.randn(4, 5, requires_grad=True)
        loss = wrap(net)(x).square().mean()
        loss.backward()
        yield loss
        yield from (p.grad for p in net.parameters())


def parameters_come_and_go(wrap):
    net, x = mlp(4, 5, 2), torch.randn(3, 4)
    call, kept = wrap(net), copy.deepcopy(net.state_dict())
    with torch.no_grad():
        yield call(x)
        for p in net.parameters():
            p.data = p.data * 2
        yield call(x)
        net.load_state_dict(kept)
        yield call(x)
        net[0] = nn.Linear(4, 5)
        yield call(x)
        net.to(torch.float64)
        yield call(x.double())
        net.append(nn.ReLU())
        yield call(x.double())


def policies_are_bettered(wrap):
    """A step of PPO: shares are compared with those before, and rewards that come later are discounted."""
    net = mlp(4, 6, 3)
    states, actions, rewards = torch.randn(7, 4), torch.randint(0, 3, (7,)), torch.randn(7)

    def loss_of(states, actions, before, gains):
        scores = net(states)
        policy = torch.distributions.Categorical(logits=scores[:, :2])
        ratio = (policy.log_prob(actions.clamp(max=1)) - before).exp()
        return -torch.minimum(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean() + F.mse_loss(scores[:, 2], gains) - 0.01 * policy.entropy().mean()

    call, optimiser, gains = wrap(loss_of), torch.optim.Adam(net.parameters(), 0.05), []
    for reward in rewards.flip(0):
        gains.insert(0, reward + 0.9 * (gains[0] if gains else 0))
    gains = torch.stack(gains)
    with torch.no_grad():
        before = torch.distributions.Categorical(logits=net(states)[:, :2]).log_prob(actions.clamp(max=1))
    for _ in range(3):
        loss = call(states, actions, before, (gains - gains.mean()) / gains.std())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield loss


def noise_is_taken_away(wrap):
    """Sampling from noise, step by step, with numbers of Python that change."""
    net = mlp(5, 8, 4)
    kept = torch.linspace(0.99, 0.3, 6)

    def step(x, t, sigma):
        noise = net(torch.cat([x, t.expand(len(x), 1)], 1))
        mean = (x - (1 - kept[t]).sqrt() * noise) / kept[t].sqrt()
        return mean + sigma * torch.randn_like(x)

    call, x = wrap(step), torch.randn(3, 4)
    with torch.no_grad():
        for t in range(5, -1, -1):
            x = call(x, torch.tensor(t), 0.1 * t)
            yield x


def words_are_chosen_one_by_one(wrap):
    net, words = nn.Sequential(nn.Embedding(11, 8), nn.Flatten(), nn.Linear(8 * 4, 11)), torch.randint(0, 11, (2, 4))
    call = wrap(net)
    with torch.inference_mode():
        for _ in range(5):
            scores = call(words[:, -4:])
            words = torch.cat([words, scores.topk(3).indices[:, 1:2]], 1)
    yield words


def weights_grow_by_hand(wrap):
    """Parameters are changed within what is compiled."""
    weight, mean, x = torch.randn(3, 4), torch.zeros(3, 4), torch.randn(5, 4)

    def step(x, rate):
        with torch.enable_grad():
            w = weight.detach().requires_grad_()
            gradient, = torch.autograd.grad((x @ w.T).square().mean(), w)
        mean.mul_(0.9).add_(gradient)
        weight.sub_(mean, alpha=rate)
        return gradient.norm()

    call = wrap(step)
    for rate in (0.1, 0.05, 0.2):
        yield call(x, rate)
    yield from (weight, mean)


PROGRAMS = [sharpness_aware, searches_along_lines, averaged_weights, scaled_halves, parts_of_batches, layers_are_frozen_and_freed, texts_of_different_length,
            states_are_carried_on, two_networks_against_each_other, penalties_on_gradients, learning_to_learn, gradients_of_each_sample, taught_by_another,
            training_and_evaluation_alternate, computed_again, parameters_come_and_go, policies_are_bettered, noise_is_taken_away, words_are_chosen_one_by_one,
            weights_grow_by_hand]  # fmt: skip
TOLERANCES = {"scaled_halves": 3e-2}


@pytest.mark.filterwarnings("ignore:PyTorch runs operators")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_follows_eager(program):
    def run(wrap):
        torch.manual_seed(0)
        return [x.detach().clone() for x in program(wrap)]

    given, wanted = run(lambda part: torch.compile(part, backend=tensmith.torch.backend)), run(lambda part: part)
    tolerance = TOLERANCES.get(program.__name__, 2e-4)
    assert len(given) == len(wanted)
    for a, b in zip(given, wanted):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
